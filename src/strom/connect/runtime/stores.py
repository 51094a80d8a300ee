"""The worker's state: the three topics, followed and written."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from strom.connect.runtime.assignment import Unit
from strom.connect.runtime.clients import Clients
from strom.connect.runtime.settings import WorkerSettings
from strom.connect.runtime.state import (
    ConfigState,
    ConnectorState,
    OffsetState,
    Restart,
    Status,
    StatusState,
    status_key,
    topic_key,
)
from strom.connect.runtime.topic_log import LogWriter, TopicLog

Record = tuple[str, Mapping[str, Any] | None]
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

    def records(self, connector: str, pairs: Iterable[Pair]) -> Sequence[Record]:
        """The records that store these offsets."""
        with self._log.lock:
            return [(self._state.key(connector, partition), offset) for partition, offset in pairs]

    def write(self, records: Sequence[Record]) -> None:
        """Write records outside of any transaction."""
        self._writer.write(self.topic, records)


class Stores:
    """Configurations, states and offsets of all connectors of the group."""

    def __init__(self, clients: Clients, settings: WorkerSettings) -> None:
        self._settings = settings
        self._writer = LogWriter(clients)
        self._config = ConfigState()
        self._status = StatusState()
        self._live = False
        self.changed = threading.Event()
        """Set when a configuration has changed; the waiting thread clears it."""
        self.on_restart: Callable[[Restart], None] = lambda restart: None
        self._config_log = TopicLog(clients, settings.config_topic, self._apply_config)
        self._status_log = TopicLog(
            clients, settings.status_topic, lambda key, value, _: self._status.apply(key, value)
        )
        self.offsets = SourceOffsets(clients, settings.offset_topic, self._writer)

    def start(self) -> None:
        """Read all three topics to their ends."""
        copies = self._settings.replication_factor
        self._config_log.start(1, copies)
        self._status_log.start(self._settings.status_partitions, copies)
        self.offsets.start(self._settings.offset_partitions, copies)
        self._live = True

    def stop(self) -> None:
        self._writer.close()
        for log in (self._config_log, self._status_log, self.offsets):
            log.stop()

    def _apply_config(self, key: str, value: Any, offset: int) -> None:
        restart = self._config.apply(key, value, offset)
        # Restarts that were requested before this worker started are done.
        if restart is not None and self._live:
            self.on_restart(restart)
        self.changed.set()

    def write_config(self, records: Sequence[Record]) -> None:
        """Append to the config topic; returns when this worker has read it back."""
        self._writer.write(self._settings.config_topic, records)
        self._config_log.catch_up()

    def catch_up(self) -> None:
        """Return when every configuration written so far is read."""
        self._config_log.catch_up()

    def catch_up_statuses(self) -> None:
        """Return when every state written so far is read."""
        self._status_log.catch_up()

    @property
    def config_end(self) -> int:
        """The offset up to which the config topic is read."""
        return self._config.end

    def units(self) -> frozenset[Unit]:
        """All units that are to be assigned to workers."""
        with self._config_log.lock:
            return self._config.units()

    def connector(self, name: str) -> ConnectorState | None:
        """The present state of a connector; None if it does not exist."""
        with self._config_log.lock:
            return self._config.get(name)

    def connectors(self) -> dict[str, ConnectorState]:
        with self._config_log.lock:
            return self._config.connectors

    def wait_for_config(self, seconds: float) -> None:
        """Wait until more of the config topic is read, at most so long."""
        with self._config_log.changed:
            self._config_log.changed.wait(seconds)

    def status(self, unit: Unit) -> Status | None:
        """The state of a connector or task."""
        with self._status_log.lock:
            return self._status.statuses.get(unit)

    def task_statuses(self, connector: str) -> dict[int, Status]:
        """The states of a connector's tasks."""
        with self._status_log.lock:
            return self._status.tasks_of(connector)

    def write_status(self, unit: Unit, status: Status | None) -> None:
        """Write the state of a unit; None if the unit no longer exists."""
        value = None if status is None else status.to_json()
        self._writer.write(self._settings.status_topic, [(status_key(unit), value)])

    def topics(self, connector: str) -> list[str]:
        """The topics that a connector has used."""
        with self._status_log.lock:
            return sorted(self._status.topics.get(connector, ()))

    def use_topic(self, unit: Unit, topic: str, now_ms: int) -> None:
        """Note that a task uses a topic."""
        value = {
            "name": topic,
            "connector": unit.connector,
            "task": unit.task,
            "discoverTimestamp": now_ms,
        }
        key = topic_key(topic, unit.connector)
        self._writer.write(self._settings.status_topic, [(key, {"topic": value})])

    def forget_topics(self, connector: str) -> None:
        """Forget which topics a connector has used."""
        records: list[Record] = [
            (topic_key(topic, connector), None) for topic in self.topics(connector)
        ]
        self._writer.write(self._settings.status_topic, records)
        self._status_log.catch_up()
