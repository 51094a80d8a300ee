"""The admin calls for topics, offsets and settings."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import OffsetSpec

from strom.client import offsets
from strom.client.cluster import broker_config, cluster_id, topic_config
from strom.client.connection_settings import ConnectionSettings
from strom.client.factories import KafkaClients
from strom.client.kafka_errors import (
    COORDINATOR_NOT_READY,
    NO_LEADER,
    NO_RESPONSE,
    NOT_VISIBLE_YET,
    error_name,
    kafka_reason,
)
from strom.client.offsets import list_offsets, offset_bounds
from strom.client.topics import TopicAdmin, create_topic, describe_topic, wait_for_topic

SECONDS = 20.0


@pytest.fixture
def clients(strom_server):
    return KafkaClients(ConnectionSettings(strom_server.bootstrap_servers))


@pytest.fixture
def admin(clients):
    return clients.admin()


def test_a_topic_is_created_once(admin, topic):
    assert create_topic(admin, topic, partitions=2, config={"retention.ms": "-1"})
    assert not create_topic(admin, topic, partitions=5)
    assert len(wait_for_topic(admin, topic, SECONDS).partitions) == 2
    assert topic_config(admin, topic, SECONDS)["retention.ms"] == "-1"


def test_looking_for_a_topic_creates_none(admin, clients, topic):
    assert describe_topic(admin, topic, SECONDS) is None
    assert topic not in TopicAdmin(clients).names()


def test_a_name_that_the_broker_refuses_is_raised(admin):
    with pytest.raises(KafkaException) as refused:
        create_topic(admin, "no such/name")
    assert error_name(refused.value) == "TOPIC_EXCEPTION"


def test_a_cluster_has_an_id_and_settings(admin):
    assert cluster_id(admin, SECONDS)
    assert int(broker_config(admin, SECONDS)["transaction.max.timeout.ms"]) > 0


def test_no_response_is_no_cluster_without_an_id():
    nobody = KafkaClients(ConnectionSettings("127.0.0.1:1")).admin()
    with pytest.raises(KafkaException) as refused:
        cluster_id(nobody, 0.3)
    assert error_name(refused.value) in NO_RESPONSE


def test_a_topic_has_a_first_and_a_last_offset(admin, clients, topic):
    create_topic(admin, topic, partitions=1)
    producer = clients.reporting_producer()
    producer.produce(topic, b"1")
    assert producer.flush(SECONDS) == 0
    assert offset_bounds(admin, [(topic, 0)]) == ({(topic, 0): 0}, {(topic, 0): 1})
    assert list_offsets(admin, [], OffsetSpec.latest()) == {}


class Failing:
    """An admin client whose first responses are errors."""

    def __init__(self, *codes):
        self.codes = list(codes)
        self.refreshed = 0

    def list_offsets(self, wanted, **_):
        future: Future[SimpleNamespace] = Future()
        if self.codes:
            future.set_exception(KafkaException(KafkaError(self.codes.pop(0))))
        else:
            future.set_result(SimpleNamespace(offset=7))
        return dict.fromkeys(wanted, future)

    def list_topics(self, **_):
        self.refreshed += 1


def test_offsets_are_asked_for_again_while_a_partition_has_no_leader(monkeypatch):
    monkeypatch.setattr(offsets, "PAUSE_S", 0.001)
    admin = Failing(KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION)
    assert list_offsets(admin, [("t", 0)], OffsetSpec.latest()) == {("t", 0): 7}
    assert admin.refreshed == 2


def test_other_errors_are_raised_at_once():
    admin = Failing(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaException):
        list_offsets(admin, [("t", 0)], OffsetSpec.latest())
    assert admin.refreshed == 0


def test_what_does_not_pass_is_raised_when_the_time_is_over():
    admin = Failing(*[KafkaError.LEADER_NOT_AVAILABLE] * 3)
    with pytest.raises(KafkaException):
        list_offsets(admin, [("t", 0)], OffsetSpec.latest(), timeout_s=-1)


@pytest.mark.parametrize(
    "name", sorted(NO_LEADER | NO_RESPONSE | NOT_VISIBLE_YET | COORDINATOR_NOT_READY)
)
def test_librdkafka_knows_the_names_of_errors(name):
    assert KafkaError(getattr(KafkaError, name)).name() == name


def test_a_reason_is_a_sentence_without_prefixes():
    assert kafka_reason(KafkaException(KafkaError(KafkaError._TIMED_OUT))) == "Timed out."
    assert kafka_reason(ValueError("no broker: Broker: gone!")) == "no broker: gone!"
