"""Offsets of connectors by REST: what Kafka does not respond with, and what is malformed."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from strom.connect.api import RetriableError
from strom.connect.runtime import offset_commands
from strom.connect.runtime.commands import BadRequest, Commands
from strom.connect.runtime.offset_commands import OffsetCommands
from strom.connect.runtime.rest.connectors import alter_offsets
from strom.connect.runtime.rest.responses import Call
from strom.connect.runtime.state import ConnectorState, Target

PLACE = {"kafka_topic": "t", "kafka_partition": 0}


@pytest.fixture
def commands(monkeypatch) -> Commands:
    """Those of a worker whose only connector is a stopped sink, without a broker."""
    stopped = ConnectorState("sink", target=Target.STOPPED)
    stores = SimpleNamespace(
        connector=lambda name: stopped,
        catch_up=lambda: None,
        catch_up_statuses=lambda: None,
        task_statuses=lambda name: {},
    )
    monkeypatch.setattr(Commands, "kind", lambda self, name: "sink")
    worker: Any = SimpleNamespace(admin=None, stores=stores)
    return Commands(worker)


@pytest.fixture
def offsets_of_sink(monkeypatch, commands):
    """The offsets that a sink is said to have when Kafka responds with this error."""

    def ask(code):
        def fail(*_):
            raise KafkaException(KafkaError(code))

        monkeypatch.setattr(offset_commands, "committed_offsets", fail)
        return OffsetCommands(commands).read("sink")

    return ask


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError.COORDINATOR_LOAD_IN_PROGRESS])
def test_offsets_that_cannot_be_read_are_not_reported_as_none(offsets_of_sink, code):
    with pytest.raises(RetriableError, match="The group connect-sink"):
        offsets_of_sink(code)


def test_a_group_that_does_not_exist_has_no_offsets(offsets_of_sink):
    assert offsets_of_sink(KafkaError.GROUP_ID_NOT_FOUND) == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (None, "must be a JSON object"),
        ([], "must be a JSON object"),
        ({}, "need to be provided"),
        ({"offsets": None}, "need to be provided"),
        ({"offsets": []}, "need to be provided"),
        ({"offsets": 5}, "must be a list"),
        ({"offsets": True}, "must be a list"),
        ({"offsets": "all"}, "must be a list"),
        ({"offsets": {"partition": PLACE, "offset": None}}, "must be a list"),
        ({"offsets": [5]}, "Each offset must be"),
        ({"offsets": [{"offset": {"kafka_offset": 1}}]}, "Each offset must be"),
        ({"offsets": [{"partition": PLACE, "offset": 1}]}, "Each offset must be"),
    ],
)
def test_a_body_that_lists_no_offsets_is_a_bad_request(commands, body, message):
    request: Any = SimpleNamespace(path_params={"name": "sink"})
    with pytest.raises(BadRequest, match=message):
        alter_offsets(Call(commands, request, body))


@pytest.mark.parametrize(
    ("partition", "offset", "message"),
    [
        ({}, None, "must contain the keys 'kafka_topic' and 'kafka_partition'"),
        ({"kafka_topic": "t"}, None, "must contain the keys"),
        ({"kafka_topic": None, "kafka_partition": 0}, None, "may not be null"),
        (PLACE | {"kafka_partition": None}, None, "Kafka partition value .*'None'"),
        (PLACE | {"kafka_partition": "first"}, None, "Kafka partition value .*'first'"),
        (PLACE | {"kafka_partition": True}, None, "Kafka partition value .*'True'"),
        (PLACE | {"kafka_partition": float("inf")}, None, "Kafka partition value .*'inf'"),
        (PLACE | {"kafka_partition": 2**31}, None, "Kafka partition value"),
        (PLACE, {}, "contain the key 'kafka_offset'"),
        (PLACE, {"kafka_offset": 1.5}, r"Kafka offset value .*'1\.5'"),
        (PLACE, {"kafka_offset": [1]}, "Kafka offset value"),
        (PLACE, {"kafka_offset": 2**63}, "Kafka offset value"),
        (PLACE, {"kafka_offset": -1}, "must be 0 or greater"),
    ],
)
def test_a_malformed_offset_of_a_sink_is_a_bad_request(commands, partition, offset, message):
    with pytest.raises(BadRequest, match=message):
        OffsetCommands(commands).alter("sink", [(partition, offset)])
