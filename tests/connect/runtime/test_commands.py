"""What the REST interface does to connectors, where Kafka itself does not respond."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from strom.connect.api import RetriableError
from strom.connect.runtime import commands
from strom.connect.runtime.commands import Commands


@pytest.fixture
def offsets_of_sink(monkeypatch):
    """The offsets that a sink is said to have when Kafka responds with this error."""

    def ask(code):
        def fail(*_):
            raise KafkaException(KafkaError(code))

        monkeypatch.setattr(commands, "committed_offsets", fail)
        monkeypatch.setattr(Commands, "kind", lambda self, name: "sink")
        worker: Any = SimpleNamespace(admin=None, stores=None)
        return Commands(worker).offsets("sink")

    return ask


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError.COORDINATOR_LOAD_IN_PROGRESS])
def test_offsets_that_cannot_be_read_are_not_reported_as_none(offsets_of_sink, code):
    with pytest.raises(RetriableError, match="The group connect-sink"):
        offsets_of_sink(code)


def test_a_group_that_does_not_exist_has_no_offsets(offsets_of_sink):
    assert offsets_of_sink(KafkaError.GROUP_ID_NOT_FOUND) == []
