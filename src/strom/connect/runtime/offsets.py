"""The offsets of sources: the topic that stores them, read with read_committed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from strom.connect.runtime.clients import Clients
from strom.connect.runtime.state import OffsetState
from strom.connect.runtime.topic_log import LogWriter, TopicLog

Pair = tuple[Mapping[str, Any], Mapping[str, Any] | None]
"""A source partition and its offset; None removes it."""


class SourceOffsets:
    """The stored offsets of all sources."""

    def __init__(self, clients: Clients, topic: str, writer: LogWriter) -> None:
        self.topic = topic
        self._state = OffsetState()
        self._writer = writer
        self._log = TopicLog(
            clients, topic, lambda key, value, _: self._state.apply(key, value), committed=True
        )

    def start(self, partitions: int, replication: int) -> None:
        self._log.start(partitions, replication)

    def stop(self) -> None:
        self._log.stop()

    def catch_up(self) -> None:
        """Return when everything stored so far is read; waits for open transactions to end."""
        self._log.catch_up(timeout_s=120)

    def catch_up_visible(self) -> None:
        """Return when everything committed so far is read; does not wait for open transactions."""
        self._log.catch_up(past_open_transactions=False)

    def get(self, connector: str, source_partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The stored offset of a source partition."""
        with self._log.lock:
            return self._state.get(connector, source_partition)

    def of(self, connector: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """All source partitions of a connector and their offsets."""
        with self._log.lock:
            return [(partition, offset) for _, partition, offset in self._state.of(connector)]

    def records(
        self, connector: str, pairs: Iterable[Pair]
    ) -> Sequence[tuple[str, Mapping[str, Any] | None]]:
        """The records that store these offsets."""
        with self._log.lock:
            return [(self._state.key(connector, partition), offset) for partition, offset in pairs]

    def write(self, records: Sequence[tuple[str, Mapping[str, Any] | None]]) -> None:
        """Write records outside of any transaction."""
        self._writer.write(self.topic, records)
