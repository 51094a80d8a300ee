"""What authors of connectors implement.

The runtime makes one connector object per configured connector and worker, asks it once how to
split the work, and runs every task in a thread of its own, where nothing but that task runs.
All calls of one task come from that thread, one after the other.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from strom.connect.api.records import SinkRecord, SourceRecord, TopicPartition
from strom.connect.api.settings import ConnectorSettings

S = TypeVar("S", bound=ConnectorSettings)


class SourceContext(Protocol):
    """What the runtime offers a source task."""

    stopping: threading.Event
    """Set when the task shall end: long waits in `poll` should wait on it."""

    def offset(self, source_partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """How far this partition was delivered; None if never."""
        ...


class SinkContext(Protocol):
    """What the runtime offers a sink task."""

    stopping: threading.Event
    connector: str
    """The connector's name: with topic and partition, what a sink's stored positions go by."""

    def topic_id(self, topic: str) -> str | None:
        """The id of the topic that is read by this name; it stays the same from one `open` to the next.

        A sink that stores positions stores it with them (`resumed_position`). None: the cluster has no
        ids, or does not let the connector see them.
        """
        ...

    def end_offset(self, partition: TopicPartition) -> int:
        """The offset behind the last record of a partition; RetriableError if nobody knows it now."""
        ...

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Deliver nothing more of these until `resume`."""
        ...

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Deliver these again."""
        ...


class SourceTask(ABC, Generic[S]):
    """Reads a part of the other side."""

    def __init__(self, settings: S, context: SourceContext) -> None:
        self.settings = settings
        self.context = context

    def start(self) -> None:
        """Open what is needed. RetriableError: tried again later."""

    @abstractmethod
    def poll(self) -> Sequence[SourceRecord]:
        """The next records; empty after a short wait (up to a second) if there are none.

        PoisonRecord: something malformed was read, and the next call goes on behind it. The records
        before it must have been returned by an earlier call. It should carry its source partition and
        offset, so that a restart does not read it again and `delivered` reports it.
        """

    def ends_transaction(self) -> bool:
        """Whether the transaction ends with what the last `poll` returned.

        Asked after every poll with `transaction.boundary=connector`. What is in no ended transaction
        comes again after a restart. The broker aborts one that is open for more than a minute, or for
        more than the connector's `producer.override.transaction.timeout.ms`.
        """
        return True

    def delivered(self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> None:
        """Hear that everything up to these (source partition, source offset) pairs is in Kafka.

        Records that were skipped (`errors.tolerance=all`) or dropped by a transform count as delivered,
        once everything before them is. Sources that hold something until it is delivered (a queue's
        message, a replication slot) let go of it here.
        """

    def idle_offsets(self) -> Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """(source partition, source offset) pairs to store though no record came.

        Asked when everything that was returned is delivered. `delivered` reports them when they are
        stored, as it does for records.
        """
        return ()

    def stop(self) -> None:
        """Close what was opened; called once, also after a failure."""


class SinkTask(ABC, Generic[S]):
    """Stores records on the other side.

    Two ways to be safe, and a task picks one:

    - at least once: `put` and `flush` store everything; the runtime commits after `flush`;
    - exactly once: the task stores each partition's next offset and topic id together with the data,
      in one transaction of the other side, and returns it from `open` (`resumed_position`); reading
      then goes on from there, whatever the consumer group says.
    """

    most_at_once: ClassVar[int] = 5000
    """How many records a call of `put` brings at most. More cost less each, but come later."""

    def __init__(self, settings: S, context: SinkContext) -> None:
        self.settings = settings
        self.context = context

    def start(self) -> None:
        """Open what is needed. RetriableError: tried again later."""

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """These partitions are now this task's; returns the offsets to go on from, where it knows.

        It is called again, after `close`, when a `put` or `flush` has raised RetriableError: what was
        put since the last flush is delivered again, so the task forgets it and says from where. So it
        is when a topic was deleted and recreated: `SinkContext.topic_id` then returns another id.
        """
        return {}

    @abstractmethod
    def put(self, records: Sequence[SinkRecord]) -> None:
        """Take records, in order within each partition. They may be kept until `flush`.

        `record_batches(records)` has the same in columns, which is faster for those who want columns.

        RetriableError: the runtime comes again after a pause, with these records alone if nothing
        was put since the last flush, else with everything since then (see `open`). PoisonRecord:
        the record at its index is set aside, and the others are offered again.
        """

    def advance(self, positions: Mapping[TopicPartition, int]) -> None:
        """Hear that everything before these offsets was put or skipped; called right before `flush`.

        Skipped are records that a transform dropped, and those that went to the dead letters, which
        are durable by now. A task that stores positions stores these with the flush, where they are
        ahead of its own: otherwise a restart reads the skipped records at the end again.
        """

    def flush(self) -> None:
        """Store everything taken so far; when it returns, it is safe on the other side."""

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """These partitions are no longer this task's; a last `flush` was made, if it was possible."""

    def stop(self) -> None:
        """Close what was opened; called once, also after a failure."""


class Connector(ABC, Generic[S]):
    """A kind of connector, and for one configuration of it: how the work is split."""

    settings_class: ClassVar[type[ConnectorSettings]]
    version: ClassVar[str] = "1"

    def __init__(self, settings: S) -> None:
        self.settings = settings

    def check(self) -> Mapping[str, str]:
        """Try what can only be tried at creation (is the folder there? does the login work?).

        Returns setting → what is wrong. Must end within seconds and change nothing.
        """
        return {}

    def task_settings(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """What each task's configuration has beyond the connector's own; one entry per task."""
        return [{}]


class SourceConnector(Connector[S]):
    """A connector that brings records in."""

    task_class: ClassVar[type[SourceTask[Any]]]
    exactly_once: ClassVar[bool] = True
    """Whether what it delivers can be repeated exactly from a source offset."""
    defines_transactions: ClassVar[bool] = False
    """Whether its tasks say where transactions end, for `transaction.boundary=connector`."""


class SinkConnector(Connector[S]):
    """A connector that carries records out."""

    task_class: ClassVar[type[SinkTask[Any]]]

    def set_positions(self, connector: str, positions: Mapping[TopicPartition, int]) -> None:
        """Have the connector of this name, which is stopped, go on from these offsets.

        For sinks that store positions of their own; for others the consumer group is all.
        ConnectError: it cannot be done, and what to do instead. Then nothing is changed.
        """

    def task_settings(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """As many tasks as allowed: partitions are shared out among them."""
        return [{} for _ in range(max_tasks)]
