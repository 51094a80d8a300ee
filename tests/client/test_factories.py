"""Clients get defaults, the user's properties and what the code relies on, in this order."""

import pytest

from strom.client.connection_settings import ConnectionSettings
from strom.client.factories import KafkaClients
from strom.model.errors import UserError

NOBODY = "127.0.0.1:1"


@pytest.fixture
def made(monkeypatch):
    """What each client was made with."""
    found: list[dict[str, object]] = []
    for name in ("Producer", "Consumer"):
        monkeypatch.setattr(f"confluent_kafka.{name}", found.append)
    return found


def clients(**properties):
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return KafkaClients(ConnectionSettings(NOBODY, named))


def test_users_win_over_defaults_and_lose_to_what_is_fixed(made):
    clients(linger_ms="7", retries="1").reporting_producer(
        {"linger.ms": 5, "batch.size": 9}, fixed={"retries": 3}
    )
    assert (
        made[0].items()
        >= {
            "linger.ms": "7",
            "batch.size": 9,
            "retries": 3,
            "bootstrap.servers": NOBODY,
        }.items()
    )


def test_producers_are_idempotent(made):
    clients().producer()
    clients(acks="-1").reporting_producer()
    assert [one["enable.idempotence"] for one in made] == [True, True]


def test_a_user_who_wants_fewer_acknowledgements_gets_no_idempotence(made):
    """librdkafka would refuse to make the producer."""
    clients(acks="1").producer()
    clients().producer({"acks": "0"})
    assert not any("enable.idempotence" in one for one in made)


def test_only_failures_are_reported_with_any_settings_of_the_user(made):
    clients(delivery_report_only_error="false").producer(on_failure=print)
    assert made[0]["delivery.report.only.error"] is True
    assert made[0]["on_delivery"] is print


def test_a_consumer_commits_only_when_asked_to(made):
    clients().consumer()
    assert (made[0]["group.id"], made[0]["enable.auto.commit"]) == ("strom", False)


def test_librdkafka_takes_the_profiles():
    from strom.client import factories

    one = clients()
    one.producer({**factories.HIGH_THROUGHPUT, **factories.JAVA_PARTITIONER})
    one.reporting_producer({**factories.SINGLE_RECORDS, **factories.NO_CALLBACKS})
    one.transactional_producer(fixed={"transactional.id": "t"})
    one.consumer(factories.READ_AHEAD).close()
    one.admin()


def test_a_server_that_does_not_respond_is_reported(monkeypatch):
    monkeypatch.setattr("strom.client.factories.RESPONSE_S", 0.2)
    one = clients()
    with pytest.raises(UserError, match=f"{NOBODY} does not respond as a Kafka broker"):
        one.metadata(one.admin())
