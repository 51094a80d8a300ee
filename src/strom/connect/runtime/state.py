"""The state in the three topics, in Kafka Connect's format: pure folds over their records.

Kafka's workers can take over these topics, and this runtime can take over theirs.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from strom.connect.runtime.assignment import CONNECTOR, Unit

CONNECTOR_PREFIX = "connector-"
TASK_PREFIX = "task-"
COMMIT_PREFIX = "commit-"
TARGET_PREFIX = "target-state-"
FENCING_PREFIX = "tasks-fencing-"
RESTART_PREFIX = "restart-connector-"
RESTART_TASK_PREFIX = "restart-task-"
"""An extension: Kafka's workers forward this request to each other by HTTP."""
STATUS_CONNECTOR_PREFIX = "status-connector-"
STATUS_TASK_PREFIX = "status-task-"
STATUS_TOPIC_PREFIX = "status-topic-"
TOPIC_SEPARATOR = ":connector-"


class Target(Enum):
    """The state that a connector is to reach."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"

    def to_json(self) -> dict[str, str]:
        """The value of its record; workers before Kafka 3.5 (KIP-875) read `state`, without STOPPED."""
        old = Target.PAUSED if self is Target.STOPPED else self
        return {"state": old.value, "state.v2": self.value}


@dataclass(frozen=True)
class Restart:
    """A requested restart of a connector, its tasks, or one task."""

    unit: Unit
    include_tasks: bool = False
    only_failed: bool = False


@dataclass
class ConnectorState:
    """One connector in the config topic."""

    name: str
    config: dict[str, str] = field(default_factory=dict)
    config_offset: int = -1
    """Negative if the connector does not exist: its other records may precede or outlive it."""
    target: Target = Target.STARTED
    tasks: tuple[dict[str, str], ...] = ()
    tasks_offset: int = -1
    """The offset of the commit of the tasks' configurations: their generation."""
    fenced_offset: int = -1
    """The offset of the record that zombies of older generations are fenced (KIP-618)."""
    fenced_tasks: int = 0
    """The number of tasks of that generation."""
    complete: bool = True
    """Whether all committed tasks were present; if not, the connector writes them again."""
    waiting: dict[int, dict[str, str]] = field(default_factory=dict)
    """Configurations of tasks that are not committed yet."""


class ConfigState:
    """The fold over the config topic.

    Compaction may leave the records of one connector in any order, so each is applied independently
    of those before it.
    """

    def __init__(self) -> None:
        self._all: dict[str, ConnectorState] = {}
        self.end = 0
        """The offset after the last record that was applied."""

    @property
    def connectors(self) -> dict[str, ConnectorState]:
        """The existing connectors, by name."""
        return {name: one for name, one in self._all.items() if one.config_offset >= 0}

    def get(self, name: str) -> ConnectorState | None:
        """The connector of this name; None if it does not exist."""
        found = self._all.get(name)
        return found if found is not None and found.config_offset >= 0 else None

    def units(self) -> frozenset[Unit]:
        """All units that are to be assigned to workers."""
        return frozenset(
            unit
            for name, connector in self.connectors.items()
            for unit in (Unit(name), *(Unit(name, task) for task in range(len(connector.tasks))))
        )

    def apply(self, key: str, value: Any, offset: int) -> Restart | None:
        """Apply one record; returns the restart that it requests, if it is no state."""
        self.end = offset + 1
        # Fencing before tasks: its prefix begins like that of a task.
        if key.startswith(FENCING_PREFIX):
            self._apply_fencing(self._of(key, FENCING_PREFIX), value, offset)
        elif key.startswith(TARGET_PREFIX):
            self._apply_target(self._of(key, TARGET_PREFIX), value)
        elif key.startswith(CONNECTOR_PREFIX):
            self._apply_connector(self._of(key, CONNECTOR_PREFIX), value, offset)
        elif key.startswith(COMMIT_PREFIX):
            self._apply_commit(self._of(key, COMMIT_PREFIX), value, offset)
        elif key.startswith(TASK_PREFIX):
            unit = _task_of(key, TASK_PREFIX)
            if value is not None and unit is not None:
                self._of(unit.connector).waiting[unit.task] = _properties(value)
        else:
            return _restart(key, value)
        return None

    def _of(self, key: str, prefix: str = "") -> ConnectorState:
        name = key.removeprefix(prefix)
        return self._all.setdefault(name, ConnectorState(name))

    def _apply_target(self, connector: ConnectorState, value: Any) -> None:
        try:
            connector.target = (
                Target.STARTED if value is None else Target(value.get("state.v2") or value["state"])
            )
        except ValueError:
            return

    def _apply_connector(self, connector: ConnectorState, value: Any, offset: int) -> None:
        if value is None:
            target = connector.target
            self._all[connector.name] = ConnectorState(connector.name, target=target)
        else:
            connector.config, connector.config_offset = _properties(value), offset

    def _apply_commit(self, connector: ConnectorState, value: Any, offset: int) -> None:
        count = 0 if value is None else int(value["tasks"])
        known = dict(enumerate(connector.tasks)) | connector.waiting
        connector.waiting = {}
        connector.complete = all(number in known for number in range(count))
        connector.tasks = (
            tuple(known[number] for number in range(count)) if connector.complete else ()
        )
        connector.tasks_offset = -1 if value is None else offset

    def _apply_fencing(self, connector: ConnectorState, value: Any, offset: int) -> None:
        if value is not None:
            connector.fenced_offset = offset
            connector.fenced_tasks = int(value["task-count"])


def _properties(value: Any) -> dict[str, str]:
    return {name: str(text) for name, text in value["properties"].items() if text is not None}


def _restart(key: str, value: Any) -> Restart | None:
    if value is None:
        return None
    if key.startswith(RESTART_PREFIX):
        return Restart(
            Unit(key.removeprefix(RESTART_PREFIX)),
            bool(value.get("include-tasks")),
            bool(value.get("only-failed")),
        )
    if key.startswith(RESTART_TASK_PREFIX):
        unit = _task_of(key, RESTART_TASK_PREFIX)
        return None if unit is None else Restart(unit)
    return None


def _task_of(key: str, prefix: str) -> Unit | None:
    name, _, number = key.removeprefix(prefix).rpartition("-")
    return Unit(name, int(number)) if number.isdigit() else None


@dataclass(frozen=True)
class Status:
    """The state of a connector or task, and its worker."""

    state: str
    worker_id: str
    generation: int = 0
    trace: str | None = None
    version: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "trace": self.trace,
            "worker_id": self.worker_id,
            "generation": self.generation,
            "version": self.version,
        }


def status_key(unit: Unit) -> str:
    if unit.task == CONNECTOR:
        return f"{STATUS_CONNECTOR_PREFIX}{unit.connector}"
    return f"{STATUS_TASK_PREFIX}{unit.connector}-{unit.task}"


def topic_key(topic: str, connector: str) -> str:
    """The key of the record that a connector uses a topic."""
    return f"{STATUS_TOPIC_PREFIX}{topic}{TOPIC_SEPARATOR}{connector}"


class StatusState:
    """The fold over the status topic."""

    def __init__(self) -> None:
        self.statuses: dict[Unit, Status] = {}
        self._tasks: dict[str, set[int]] = {}
        """Task numbers by connector, an index: there may be thousands of connectors."""
        self.topics: dict[str, set[str]] = {}
        """The topics that each connector has used."""

    def apply(self, key: str, value: Any) -> None:
        if key.startswith(STATUS_TOPIC_PREFIX):
            topic, found, connector = key.removeprefix(STATUS_TOPIC_PREFIX).rpartition(
                TOPIC_SEPARATOR
            )
            if found and value is None:
                self.topics.get(connector, set()).discard(topic)
            elif found:
                self.topics.setdefault(connector, set()).add(topic)
            return
        unit = _status_unit(key)
        if unit is None:
            return
        numbers = self._tasks.setdefault(unit.connector, set())
        if value is None:
            self.statuses.pop(unit, None)
            numbers.discard(unit.task)
        else:
            numbers.add(unit.task)
            self.statuses[unit] = Status(
                str(value.get("state")),
                str(value.get("worker_id")),
                int(value.get("generation") or 0),
                value.get("trace"),
                value.get("version"),
            )

    def tasks_of(self, connector: str) -> dict[int, Status]:
        """The states of a connector's tasks, by number."""
        numbers = sorted(self._tasks.get(connector, ()))
        return {one: self.statuses[Unit(connector, one)] for one in numbers if one >= 0}


def _status_unit(key: str) -> Unit | None:
    if key.startswith(STATUS_CONNECTOR_PREFIX):
        return Unit(key.removeprefix(STATUS_CONNECTOR_PREFIX))
    if key.startswith(STATUS_TASK_PREFIX):
        return _task_of(key, STATUS_TASK_PREFIX)
    return None


def offset_key(connector: str, source_partition: Mapping[str, Any]) -> str:
    """The key of an offset, as Kafka writes it, so that compaction finds it."""
    return json.dumps([connector, dict(source_partition)], separators=(",", ":"))


class OffsetState:
    """The fold over the offsets topic."""

    def __init__(self) -> None:
        self._offsets: dict[tuple[str, str], tuple[str, dict[str, Any], dict[str, Any]]] = {}

    def apply(self, key: str, value: Any) -> None:
        """Apply one record; what is no offset is ignored."""
        try:
            connector, partition = json.loads(key)
        except ValueError:
            return
        if not isinstance(partition, dict):
            return
        place = (str(connector), _canonical(partition))
        if value is None:
            self._offsets.pop(place, None)
        else:
            self._offsets[place] = (key, partition, value)

    def get(self, connector: str, source_partition: Mapping[str, Any]) -> dict[str, Any] | None:
        """The stored offset of a source partition."""
        found = self._offsets.get((connector, _canonical(source_partition)))
        return None if found is None else found[2]

    def key(self, connector: str, source_partition: Mapping[str, Any]) -> str:
        """The key to store it under: the existing one, in its exact bytes, if there is one."""
        found = self._offsets.get((connector, _canonical(source_partition)))
        return offset_key(connector, source_partition) if found is None else found[0]

    def of(self, connector: str) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
        """All offsets of a connector: the records' keys, partitions and offsets."""
        return [found for (name, _), found in self._offsets.items() if name == connector]


def _canonical(source_partition: Mapping[str, Any]) -> str:
    return json.dumps(source_partition, sort_keys=True)
