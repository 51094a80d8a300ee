"""`strom groups`, and `strom consume --group`."""

import json

import pytest


@pytest.fixture
def group(strom_at_broker, filled_topic):
    """A group that has read four of ten records."""
    name = f"{filled_topic}-readers"
    result = strom_at_broker(
        "consume", filled_topic, "-g", name, "--from-beginning", "-n", "4", "--timeout-ms", "20000"
    )
    assert result.stdout == "0\n1\n2\n3\n"
    return name


def test_a_group_goes_on_where_it_was(strom_at_broker, filled_topic, group):
    result = strom_at_broker(
        "consume", filled_topic, "-g", group, "-n", "6", "--timeout-ms", "20000"
    )
    assert result.stdout == "4\n5\n6\n7\n8\n9\n"


def test_groups_are_listed_and_described(strom_at_broker, filled_topic, group):
    assert strom_at_broker("groups", "list").stdout.split() == [
        *("GROUP", "STATE", "TYPE"),
        *(group, "Empty", "Classic"),
    ]
    (listed,) = json.loads(strom_at_broker("groups", "list", "--json").stdout)
    assert listed == {"name": group, "state": "Empty", "type": "Classic"}
    described = strom_at_broker("groups", "describe", group).stdout
    assert described.splitlines()[:4] == [
        f"Group        {group}",
        "Type         Classic",
        "State        Empty",
        "Members      0",
    ]
    assert described.splitlines()[-1].split() == [filled_topic, "0", "4", "10", "6", "-", "-"]
    (found,) = json.loads(strom_at_broker("groups", "describe", group, "--json").stdout)
    assert found["partitions"] == [
        {
            "topic": filled_topic,
            "partition": 0,
            "offset": 4,
            "end": 10,
            "lag": 6,
            "member": None,
        }
    ]


@pytest.mark.parametrize(
    ("where", "offset"),
    [
        (["--to", "start"], 0),
        (["--to", "end"], 10),
        (["--to", "7"], 7),
        (["--to", "-3"], 7),
        (["--to", "+2"], 2),
        (["--to", "@-1h"], 0),
        (["--by", "2"], 6),
        (["--by", "-9"], 0),
        (["--by", "99"], 10),
    ],
    ids=str,
)
def test_a_group_is_moved(strom_at_broker, filled_topic, group, where, offset):
    def current():
        (found,) = json.loads(strom_at_broker("groups", "describe", group, "--json").stdout)
        return found["partitions"][0]["offset"]

    shown = strom_at_broker("groups", "reset-offsets", group, *where)
    assert shown.stdout.splitlines()[-1].split() == [filled_topic, "0", "4", str(offset)]
    assert shown.stderr == "Nothing was changed. To reset the offsets, add --execute.\n"
    assert current() == 4
    done = strom_at_broker("groups", "reset-offsets", group, *where, "--execute", "--json")
    (moved,) = json.loads(done.stdout)
    assert moved == {"topic": filled_topic, "partition": 0, "before": 4, "offset": offset}
    assert current() == offset


def test_a_new_group_is_put_somewhere(strom_at_broker, filled_topic):
    strom_at_broker("groups", "reset-offsets", "new", filled_topic, "--to", "8", "--execute")
    result = strom_at_broker("consume", filled_topic, "-g", "new", "-n", "2")
    assert result.stdout == "8\n9\n"


def test_a_group_is_deleted(strom_at_broker, group):
    assert strom_at_broker("groups", "delete", group).exit_code == 1
    result = strom_at_broker("groups", "delete", group, "--yes")
    assert result.stdout == f"Deleted group {group}.\n"
    assert strom_at_broker("groups", "list").stdout == ""


def test_a_group_at_work_is_left_alone(strom_at_broker, start_strom, filled_topic, group):
    process = start_strom("consume", filled_topic, "-g", group)
    assert process.stdout.readline() == b"4\n"
    result = strom_at_broker("groups", "reset-offsets", group, "--to", "start", "--execute")
    assert result.exit_code == 1
    assert (
        result.stderr
        == f"Error: Group {group} has members (Stable). Stop them, then reset its offsets.\n"
    )
    assert strom_at_broker("groups", "delete", group, "--yes").exit_code == 1
    process.terminate()
    process.communicate(timeout=20)


@pytest.mark.parametrize(
    "arguments",
    [
        ["describe", "nobody"],
        ["delete", "nobody", "--yes"],
        ["reset-offsets", "nobody", "--to", "start"],
        ["reset-offsets", "nobody", "no-such-topic", "--to", "start"],
    ],
    ids=" ".join,
)
def test_what_is_not_there_is_reported_in_one_line(strom_at_broker, arguments):
    result = strom_at_broker("groups", *arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [[], ["--to", "nonsense"], ["--to", "1:2"], ["--to", "1", "--by", "2"], ["--by", "x"]],
    ids=" ".join,
)
def test_what_makes_no_sense_is_a_wrong_call(strom, arguments):
    assert strom("groups", "reset-offsets", "g", *arguments).exit_code == 2
