"""`strom bench`."""

import json


def test_rates_are_measured_and_the_topic_is_gone_afterwards(strom_at_broker):
    result = strom_at_broker("bench", "-n", "5000", "-s", "50", "-z", "lz4", "-p", "2", "--json")
    assert result.exit_code == 0, result.stderr
    measured = json.loads(result.stdout)
    assert measured["records"] == 5000
    for direction in ("produce", "consume"):
        assert measured[direction]["records_per_second"] > 0
    assert "strom-bench" not in strom_at_broker("topics", "list").stdout


def test_the_table_has_a_row_for_each_direction(strom_at_broker):
    result = strom_at_broker("bench", "-n", "100")
    assert [line.split()[0] for line in result.stdout.splitlines()[1:]] == ["produce", "consume"]
