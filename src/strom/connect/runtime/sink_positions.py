"""Where a sink task continues in each partition, and what it must not skip of recreated topics."""

from collections.abc import Mapping, Sequence

from confluent_kafka import OFFSET_BEGINNING
from confluent_kafka import TopicPartition as NativePartition

from strom.connect.api import ConnectError, RetriableError, TopicPartition
from strom.connect.runtime.sink_session import SinkSession, to_native


class SinkPositions:
    """Outlives a session: a task that failed over a recreated topic fails until its offsets are reset."""

    def __init__(self, connector: str) -> None:
        self._connector = connector
        self._recreated: set[TopicPartition] = set()
        """Partitions of recreated topics for which the task has not been opened since."""
        self._refused: set[TopicPartition] = set()
        """Those of them for which the task returned a position of the old topic."""

    def note_recreated(self, partition: TopicPartition) -> None:
        """Read a partition from its beginning when the task is opened next."""
        self._recreated.add(partition)

    def forget_recreated(self) -> None:
        self._recreated.clear()

    def choose(
        self,
        session: SinkSession,
        partitions: Sequence[TopicPartition],
        own: Mapping[TopicPartition, int],
        *,
        committed: bool,
    ) -> list[NativePartition]:
        """Where to continue: at the task's own positions, else at the group's.

        `committed` reads the group's; otherwise the consumer itself does.
        """
        native = to_native(partitions)
        if committed:
            native = session.consumer.committed(native, timeout=30)
        for one in native:
            partition = TopicPartition(one.topic, one.partition)
            position = own.get(partition)
            if position:
                self._check(session, partition, position)
                one.offset = position
            elif position == 0 or partition in self._recreated or (committed and one.offset < 0):
                one.offset = OFFSET_BEGINNING
            self._recreated.discard(partition)
            self._refused.discard(partition)
        return native

    def _check(self, session: SinkSession, partition: TopicPartition, position: int) -> None:
        """Refuse to continue past the end of a topic: new records there would count as already stored."""
        if partition in self._recreated:
            self._refused.add(partition)
        try:
            end = session.end_offset(partition)
        except RetriableError:
            if partition in self._refused:
                raise
            return  # cannot be checked, and without a broker no record is read
        if partition in self._refused or position > end:
            raise ConnectError(
                f"The sink has stored everything before offset {position} of topic {partition.topic}, "
                f"partition {partition.partition}, which now ends at {end}: the topic was deleted and "
                "recreated, or has lost records. To read it from its beginning, stop the connector "
                f"and reset its offsets (DELETE /connectors/{self._connector}/offsets)."
            )
