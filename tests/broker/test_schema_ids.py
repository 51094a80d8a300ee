"""Topics that take only records with the id of a schema."""

import json
import struct

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from strom.testing import LocalBroker

SCHEMAS = "_schemas"


def framed(schema_id: int, payload: bytes = b"x") -> bytes:
    return struct.pack(">BI", 0, schema_id) + payload


def schema_record(subject: str, version: int, schema_id: int, deleted: bool = False):
    key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
    value = {"subject": subject, "version": version, "id": schema_id, "deleted": deleted}
    return json.dumps(key).encode(), json.dumps(value | {"schema": '"string"'}).encode()


@pytest.fixture(scope="module")
def servers():
    with LocalBroker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        compacted = {"cleanup.policy": "compact"}
        for future in admin.create_topics([NewTopic(SCHEMAS, 1, config=compacted)]).values():
            future.result()
        yield broker.bootstrap_servers


@pytest.fixture
def checked(servers, topic):
    """A topic with validation."""
    admin = AdminClient({"bootstrap.servers": servers})
    config = {"strom.schema.validation": "true"}
    admin.create_topics([NewTopic(topic, 1, config=config)])[topic].result()
    return topic


def send(servers, topic, *values, key=None, **settings):
    """Send in one batch; the errors, by value."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 200, "retries": 0, **settings})
    errors = {}
    for value in values:
        producer.produce(
            topic,
            value,
            key,
            on_delivery=lambda error, message: errors.update({message.value(): error}),
        )
    assert producer.flush(20) == 0
    return errors


def register(servers, *record):
    key, value = record
    assert send(servers, SCHEMAS, value, key=key) == {value: None}


def test_a_record_with_a_known_id_is_taken(servers, checked):
    register(servers, *schema_record("taken", 1, 11))
    assert send(servers, checked, framed(11)) == {framed(11): None}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_record_without_an_id_is_refused_with_any_compression(servers, checked, codec):
    refused = send(servers, checked, b'{"plain": "json"}' * 20, **{"compression.type": codec})
    assert [error.name() for error in refused.values()] == ["INVALID_RECORD"]


def test_only_the_records_to_blame_are_blamed(servers, checked):
    register(servers, *schema_record("blame", 1, 12))
    errors = send(servers, checked, framed(12), b"plain", b"also plain")
    assert errors[b"plain"].name() == errors[b"also plain"].name() == "INVALID_RECORD"
    # librdkafka tells the innocent of the same batch by another code.
    assert errors[framed(12)].name() == "_INVALID_DIFFERENT_RECORD"


def test_an_unknown_id_is_refused_until_it_is_registered(servers, checked):
    assert send(servers, checked, framed(13))[framed(13)].name() == "INVALID_RECORD"
    register(servers, *schema_record("later", 1, 13))
    assert send(servers, checked, framed(13)) == {framed(13): None}


def test_a_deleted_schema_is_no_schema(servers, checked):
    register(servers, *schema_record("gone", 1, 14))
    register(servers, *schema_record("gone", 1, 14, deleted=True))
    assert send(servers, checked, framed(14))[framed(14)].name() == "INVALID_RECORD"


def test_tombstones_pass(servers, checked):
    assert send(servers, checked, None, key=b"k") == {None: None}


def test_transactions_write_their_markers(servers, checked):
    register(servers, *schema_record("transaction", 1, 15))
    producer = Producer({"bootstrap.servers": servers, "transactional.id": checked})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(checked, framed(15))
    producer.commit_transaction(20)


def test_an_aborted_registration_counts_for_nothing(servers, checked):
    key, value = schema_record("aborted", 1, 16)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "registry-of-test"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(SCHEMAS, value, key, partition=0)
    producer.flush(20)
    assert send(servers, checked, framed(16))[framed(16)].name() == "INVALID_RECORD"
    producer.abort_transaction(20)
    assert send(servers, checked, framed(16))[framed(16)].name() == "INVALID_RECORD"


def test_other_topics_take_everything(servers, topic):
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 1)])[topic].result()
    assert send(servers, topic, b"plain") == {b"plain": None}
