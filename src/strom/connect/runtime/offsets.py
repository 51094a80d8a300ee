"""The offsets of sources: the topic that holds them, read as committed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from strom.connect.runtime.clients import Clients
from strom.connect.runtime.state import OffsetState
from strom.connect.runtime.topic_log import LogWriter, TopicLog

Pair = tuple[Mapping[str, Any], Mapping[str, Any] | None]
"""A source partition and its offset; None forgets it."""


class Offsets:
    """All offsets of all sources."""

    def __init__(self, clients: Clients, topic: str, writer: LogWriter) -> None:
        self.topic = topic
        self._state = OffsetState()
        self._writer = writer
        self._log = TopicLog(
            clients, topic, lambda key, value, _: self._state.apply(key, value), committed=True
        )

    def start(self, partitions: int, replication: int) -> None:
        """Read them all."""
        self._log.start(partitions, replication)

    def stop(self) -> None:
        """Follow the topic no more."""
        self._log.stop()

    def catch_up(self) -> None:
        """Return when everything that was stored until now is known: open transactions are awaited."""
        self._log.catch_up(timeout_s=120)

    def look(self) -> None:
        """Return when everything that can be seen now is known."""
        self._log.catch_up(past_open_transactions=False)

    def get(self, connector: str, source_partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """How far a partition was delivered."""
        with self._log.lock:
            return self._state.get(connector, source_partition)

    def of(self, connector: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Everything stored for a connector: partitions and offsets."""
        with self._log.lock:
            return [(partition, offset) for _, partition, offset in self._state.of(connector)]

    def records(
        self, connector: str, pairs: Iterable[Pair]
    ) -> Sequence[tuple[str, Mapping[str, Any] | None]]:
        """What to write to the topic for these."""
        with self._log.lock:
            return [(self._state.key(connector, partition), offset) for partition, offset in pairs]

    def write(self, records: Sequence[tuple[str, Mapping[str, Any] | None]]) -> None:
        """Write them, outside of any transaction."""
        self._writer.write(self.topic, records)
