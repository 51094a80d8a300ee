"""Reads, alters and resets the offsets of connectors (KIP-875)."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaException

from strom.client.groups import Committed, alter_offsets, committed_offsets, delete_group
from strom.client.kafka_errors import error_name
from strom.connect.api import ConnectError, RetriableError, SinkConnector, TopicPartition
from strom.connect.runtime.commands import BadRequest, Commands
from strom.connect.runtime.sink_session import group_of
from strom.connect.runtime.state import Target
from strom.model.settings import INT_MAX, LONG_MAX

Offset = tuple[Mapping[str, Any], Mapping[str, Any] | None]


class OffsetCommands:
    """A source's offsets are in a topic; a sink's are those of its group, and those that it stores."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        self._worker = commands.worker
        self._stores = commands.worker.stores

    def read(self, name: str) -> list[Offset]:
        """The stored offsets of a connector, by partition."""
        if self._commands.kind(name) == "source":
            self._stores.offsets.catch_up_visible()
            return list(self._stores.offsets.of(name))
        committed: Mapping[Any, Committed] = {}
        with _group_calls(group_of(name)):
            committed = committed_offsets(self._worker.admin, group_of(name))
        return [
            (
                {"kafka_topic": place.topic, "kafka_partition": place.partition},
                {"kafka_offset": one.offset},
            )
            for place, one in committed.items()
        ]

    def alter(self, name: str, offsets: Sequence[Offset]) -> None:
        """Set offsets of a stopped connector; None removes a partition's offset."""
        self._must_be_stopped(name)
        if self._commands.kind(name) == "source":
            self._write_offsets(name, offsets)
        else:
            self._alter_group(name, offsets)

    def reset(self, name: str) -> None:
        """Remove all offsets of a stopped connector."""
        self._must_be_stopped(name)
        if self._commands.kind(name) == "source":
            self._stores.offsets.catch_up()
            forgotten: list[Offset] = [(one, None) for one, _ in self._stores.offsets.of(name)]
            self._write_offsets(name, forgotten)
            return
        self._set_own_positions(name, self._beginnings(name))
        with _group_calls(group_of(name)):
            delete_group(self._worker.admin, group_of(name))

    def _beginnings(self, name: str) -> dict[TopicPartition, int]:
        """Offset 0 of all partitions that a sink may have read.

        The group may lack partitions that the sink stores: a deleted topic's offsets are deleted too.
        """
        known = {(one["kafka_topic"], one["kafka_partition"]) for one, _ in self.read(name)}
        present = self._worker.admin.list_topics(timeout=10).topics
        for topic in self._stores.topics(name):
            if topic in present:
                known |= {(topic, partition) for partition in present[topic].partitions}
        return {TopicPartition(topic, partition): 0 for topic, partition in sorted(known)}

    def _write_offsets(self, name: str, offsets: Sequence[Offset]) -> None:
        records = self._stores.offsets.records(name, offsets)
        self._stores.offsets.write(records)
        self._stores.offsets.catch_up_visible()

    def _alter_group(self, name: str, offsets: Sequence[Offset]) -> None:
        wanted: dict[TopicPartition, int] = {}
        for partition, offset in offsets:
            place = _place_of(partition)
            wanted[place] = 0 if offset is None else _offset_of(offset)
            if wanted[place] < 0:
                raise BadRequest(f"Invalid offset {wanted[place]}: it must be 0 or greater.")
        self._check_partitions(wanted)
        self._set_own_positions(name, wanted)
        with _group_calls(group_of(name)):
            alter_offsets(self._worker.admin, group_of(name), wanted)

    def _check_partitions(self, places: Iterable[TopicPartition]) -> None:
        """Refuse unknown partitions before anything is changed."""
        present = self._worker.admin.list_topics(timeout=10).topics
        for place in places:
            topic = present.get(place.topic)
            if topic is None or place.partition not in topic.partitions:
                raise BadRequest(f"Unknown partition {place.partition} of topic {place.topic}.")

    def _set_own_positions(self, name: str, wanted: Mapping[TopicPartition, int]) -> None:
        """Set the positions that a sink itself stores; BadRequest if it cannot."""
        made = self._worker.checker.make(self._commands.connector(name).config)
        if isinstance(made, SinkConnector) and wanted:
            try:
                made.set_positions(name, wanted)
            except RetriableError:
                raise
            except ConnectError as error:
                raise BadRequest(self._worker.secrets.hide(str(error))) from None

    def _must_be_stopped(self, name: str) -> None:
        self._stores.catch_up()
        connector = self._commands.connector(name)
        if connector.target is not Target.STOPPED or connector.tasks:
            raise BadRequest(
                "Connectors must be in the STOPPED state before their offsets can be modified. This "
                "can be done for the specified connector by issuing a 'PUT' request to the "
                f"'/connectors/{name}/stop' endpoint"
            )
        self._stores.catch_up_statuses()
        running = [
            task
            for task, status in self._stores.task_statuses(name).items()
            if status.state != "UNASSIGNED"
        ]
        if running:
            raise BadRequest(f"The tasks of {name} are still stopping; try again in a moment.")


def _place_of(partition: Mapping[str, Any]) -> TopicPartition:
    """The partition in a request; the messages are Kafka's."""
    if not partition.keys() >= {"kafka_topic", "kafka_partition"}:
        raise BadRequest(
            "The partition for a sink connector offset must contain the keys 'kafka_topic' and "
            "'kafka_partition'"
        )
    if partition["kafka_topic"] is None:
        raise BadRequest("Kafka topic names must be valid strings and may not be null")
    number = _whole(partition["kafka_partition"], INT_MAX, "partition")
    return TopicPartition(str(partition["kafka_topic"]), number)


def _offset_of(offset: Mapping[str, Any]) -> int:
    if "kafka_offset" not in offset:
        raise BadRequest(
            "The offset for a sink connector should either be null or contain the key 'kafka_offset'"
        )
    return _whole(offset["kafka_offset"], LONG_MAX, "offset")


def _whole(value: Any, limit: int, what: str) -> int:
    """An integer, which may be a string as in Kafka."""
    try:
        number = int(str(value))
    except ValueError:
        number = limit + 1
    if not -limit - 1 <= number <= limit:
        raise BadRequest(
            f"Failed to parse the following Kafka {what} value in the provided offsets: '{value}'. "
            f"{what.capitalize()} values for sink connectors need to be integers."
        )
    return number


@contextlib.contextmanager
def _group_calls(group: str) -> Iterator[None]:
    """Raise RetriableError for errors of Kafka; a group that does not exist has no offsets."""
    try:
        yield
    except KafkaException as error:
        if error_name(error) != "GROUP_ID_NOT_FOUND":
            raise RetriableError(f"The group {group}: {error.args[0].str()}") from None
