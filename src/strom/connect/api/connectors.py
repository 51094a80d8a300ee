"""The classes that authors of connectors implement.

The runtime creates one connector object per configured connector and worker, asks it once how to split
the work, and runs every task in its own thread. All calls of one task come from that thread, one after
the other.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from strom.connect.api.records import SinkRecord, SourceRecord
from strom.connect.api.settings import ConnectorSettings
from strom.model.topics import TopicPartition

S = TypeVar("S", bound=ConnectorSettings)


class SourceContext(Protocol):
    """What the runtime provides to a source task."""

    stopping: threading.Event
    """Set when the task is to stop: `poll` should wait on it rather than sleep."""

    def offset(self, source_partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The last committed source offset of this source partition; None if there is none."""
        ...


class SinkContext(Protocol):
    """What the runtime provides to a sink task."""

    stopping: threading.Event
    connector: str
    """The connector's name; with topic and partition it identifies a position that a sink stores."""

    def topic_id(self, topic: str) -> str | None:
        """The id of the topic of this name; it does not change between two calls of `open`.

        A sink that stores positions stores the id with them (`resumed_position`). None: the cluster has
        no topic ids, or the connector is not authorized to see them.
        """
        ...

    def end_offset(self, partition: TopicPartition) -> int:
        """The end offset of a partition; RetriableError if the brokers do not respond."""
        ...

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop delivery from these partitions until `resume`."""
        ...

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Continue delivery from these partitions."""
        ...


class SourceTask(ABC, Generic[S]):
    """Reads a part of the external system."""

    def __init__(self, settings: S, context: SourceContext) -> None:
        self.settings = settings
        self.context = context

    def start(self) -> None:
        """Open connections and files. RetriableError: the runtime retries later."""

    @abstractmethod
    def poll(self) -> Sequence[SourceRecord]:
        """The next records; empty after a short wait (at most a second) if there are none.

        PoisonRecord: the task has read malformed data, and the next call continues behind it. The
        records before it must have been returned by an earlier call. It should carry its source
        partition and offset, so that a restart does not read it again and `delivered` reports it.
        """

    def ends_transaction(self) -> bool:
        """Whether the transaction ends with what the last `poll` returned.

        Called after every poll with `transaction.boundary=connector`. Records of an unfinished
        transaction are delivered again after a restart. The broker aborts a transaction after a minute,
        or after the connector's `producer.override.transaction.timeout.ms`.
        """
        return True

    def delivered(self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> None:
        """Called when everything up to these (source partition, source offset) pairs is durable in Kafka.

        Records that were skipped (`errors.tolerance=all`) or dropped by a transform count as delivered
        once everything before them is. Here a source acknowledges what it has read (a queue's messages,
        a replication slot's position).
        """

    def idle_offsets(self) -> Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """(source partition, source offset) pairs to commit although there was no record.

        Called when all returned records are delivered. `delivered` reports them once they are
        committed, as it does for records.
        """
        return ()

    def stop(self) -> None:
        """Release all resources; called once, also after a failure."""


class SinkTask(ABC, Generic[S]):
    """Writes records to the external system.

    A task chooses one of two delivery guarantees:

    - at least once: `put` and `flush` write everything; the runtime commits offsets after `flush`;
    - exactly once: the task stores each partition's next offset and topic id together with the data, in
    one transaction of the external system, and returns it from `open` (`resumed_position`); the runtime
    then reads from there, regardless of the consumer group's committed offsets.
    """

    most_at_once: ClassVar[int] = 5000
    """The maximum number of records per call of `put`.

    Larger batches cost less per record, but arrive later.
    """

    def __init__(self, settings: S, context: SinkContext) -> None:
        self.settings = settings
        self.context = context

    def start(self) -> None:
        """Open connections and files. RetriableError: the runtime retries later."""

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Called with newly assigned partitions; returns the offsets to start from, if it stores them.

        It is called again, after `close`, when a `put` or `flush` has raised RetriableError: all
        records since the last flush are delivered again, so the task discards them and returns where to
        start. The same happens when a topic was deleted and recreated: `SinkContext.topic_id` then
        returns another id.
        """
        return {}

    @abstractmethod
    def put(self, records: Sequence[SinkRecord]) -> None:
        """Write records, which are in order within each partition. They may be buffered until `flush`.

        `record_batches(records)` gives the same records in columns, which is faster for sinks that use
        columns.

        RetriableError: the runtime retries after a backoff, with these records alone if nothing was put
        since the last flush, else with everything since then (see `open`). PoisonRecord: the record at
        its index is set aside, and the others are put again.
        """

    def advance(self, positions: Mapping[TopicPartition, int]) -> None:
        """Called right before `flush`: everything before these offsets was put or skipped.

        Skipped are records that a transform dropped, and those in the dead letter queue, which are
        durable by now. A task that stores positions stores these with the flush where they are ahead of
        its own: otherwise a restart reads the skipped records at the end again.
        """

    def flush(self) -> None:
        """Write all buffered records; when it returns, they are durable in the external system."""

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Called with revoked partitions, after a last `flush` if that was possible."""

    def stop(self) -> None:
        """Release all resources; called once, also after a failure."""


class Connector(ABC, Generic[S]):
    """A connector class; for one configuration of it, it decides how the work is split."""

    settings_class: ClassVar[type[ConnectorSettings]]
    version: ClassVar[str] = "1"

    def __init__(self, settings: S) -> None:
        self.settings = settings

    def check(self) -> Mapping[str, str]:
        """Check what depends on the environment (does the folder exist, does the login work).

        Returns setting → problem. It must end within seconds and change nothing.
        """
        return {}

    def task_settings(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """The settings of each task beyond the connector's own; one entry per task."""
        return [{}]


class SourceConnector(Connector[S]):
    """A connector that reads from an external system into Kafka."""

    task_class: ClassVar[type[SourceTask[Any]]]
    exactly_once: ClassVar[bool] = True
    """Whether it can repeat its records exactly from a source offset."""
    defines_transactions: ClassVar[bool] = False
    """Whether its tasks define transaction boundaries, for `transaction.boundary=connector`."""


class SinkConnector(Connector[S]):
    """A connector that writes records from Kafka to an external system."""

    task_class: ClassVar[type[SinkTask[Any]]]

    def set_positions(self, connector: str, positions: Mapping[TopicPartition, int]) -> None:
        """Reset the stored positions of the connector of this name, which is stopped.

        For sinks that store positions themselves; for others the consumer group's offsets suffice.
        ConnectError: the reset is impossible, with the alternative; then nothing has changed.
        """

    def task_settings(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """As many tasks as allowed: the partitions are assigned among them."""
        return [{} for _ in range(max_tasks)]
