"""`strom transactions`."""

import json

import pytest
from confluent_kafka import KafkaException, Producer


@pytest.fixture
def producer(broker, filled_topic):
    """A producer whose transaction has written to one partition."""
    name = f"{filled_topic}-producer"
    one = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": name})
    one.init_transactions(20)
    one.begin_transaction()
    one.produce(filled_topic, b"open", partition=0)
    one.flush()
    return one


@pytest.fixture
def name(filled_topic):
    return f"{filled_topic}-producer"


def test_transactions_are_listed(strom_at_broker, producer, name):
    lines = strom_at_broker("transactions", "list").stdout.splitlines()
    assert lines[0].split() == ["TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "STATE"]
    assert [name, "Ongoing"] in [[line.split()[0], line.split()[-1]] for line in lines]
    listed = json.loads(
        strom_at_broker("transactions", "list", "--state", "Ongoing", "--json").stdout
    )
    assert {one["name"]: one["state"] for one in listed}[name] == "Ongoing"
    none = strom_at_broker("transactions", "list", "--state", "PrepareCommit")
    assert (none.stdout, "no such transactions" in none.stderr) == ("", True)
    producer.commit_transaction(20)


def test_a_state_that_is_none(strom_at_broker, producer):
    result = strom_at_broker("transactions", "list", "--state", "Sleeping")
    assert result.exit_code == 1
    assert "Unknown transaction state 'Sleeping'." in result.stderr
    producer.abort_transaction(20)


def test_a_transaction_is_described(strom_at_broker, filled_topic, producer, name):
    shown = strom_at_broker("transactions", "describe", name).stdout.splitlines()
    assert shown[:2] == [f"Transaction  {name}", "State        Ongoing"]
    assert shown[-1] == f"Writes to    {filled_topic}-0"
    producer.commit_transaction(20)
    (found,) = json.loads(strom_at_broker("transactions", "describe", name, "--json").stdout)
    assert (found["name"], found["state"]) == (name, "CompleteCommit")
    assert (found["open_for_ms"], found["partitions"]) == (None, [])


def test_an_unknown_one(strom_at_broker):
    for verb in ("describe", "abort"):
        result = strom_at_broker("transactions", verb, "nobody")
        assert result.exit_code == 1
        assert "Transactional id nobody does not exist." in result.stderr


def test_an_open_transaction_is_aborted_and_its_producer_fenced(
    strom_at_broker, filled_topic, producer, name
):
    refused = strom_at_broker("transactions", "abort", name)
    assert (refused.exit_code, "add --yes" in refused.stderr) == (1, True)
    assert strom_at_broker("transactions", "abort", name, "--yes").exit_code == 0
    (found,) = json.loads(strom_at_broker("transactions", "describe", name, "--json").stdout)
    assert found["state"] == "Empty"
    with pytest.raises(KafkaException):
        producer.commit_transaction(20)
    again = strom_at_broker("transactions", "abort", name, "--yes")
    assert "has no open transaction" in again.stderr
