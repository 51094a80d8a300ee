"""What the three topics say, in Kafka Connect's own format: pure folds over their records.

A worker of Kafka Connect could take these topics over, and this runtime could take over its.
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
"""Ours: Kafka's workers ask each other by HTTP for this one."""
STATUS_CONNECTOR_PREFIX = "status-connector-"
STATUS_TASK_PREFIX = "status-task-"
STATUS_TOPIC_PREFIX = "status-topic-"
TOPIC_SEPARATOR = ":connector-"


class Target(Enum):
    """What a connector shall do."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"

    def to_json(self) -> dict[str, str]:
        """The value of its record; workers before Kafka 3.5 take STOPPED for PAUSED."""
        old = Target.PAUSED if self is Target.STOPPED else self
        return {"state": old.value, "state.v2": self.value}


@dataclass(frozen=True)
class Restart:
    """Somebody asked for a new start of a connector, its tasks, or one task."""

    unit: Unit
    include_tasks: bool = False
    only_failed: bool = False


@dataclass
class ConnectorState:
    """One connector, as the config topic has it."""

    name: str
    config: dict[str, str] = field(default_factory=dict)
    config_offset: int = -1
    """Negative while there is no such connector: its other records may come first or stay longer."""
    target: Target = Target.STARTED
    tasks: tuple[dict[str, str], ...] = ()
    tasks_offset: int = -1
    """Where the tasks' configurations were committed: their generation."""
    fenced_offset: int = -1
    """Where it was written that zombies of older generations are fenced."""
    fenced_tasks: int = 0
    """How many tasks that generation has."""
    complete: bool = True
    """Whether the committed tasks were all there; if not, the connector writes them anew."""
    waiting: dict[int, dict[str, str]] = field(default_factory=dict)
    """Configurations of tasks that are not committed yet."""


class ConfigState:
    """The fold over the config topic.

    Compaction may leave the records of one connector in any order, so each is taken in by itself,
    whatever came before.
    """

    def __init__(self) -> None:
        self._all: dict[str, ConnectorState] = {}
        self.end = 0
        """The offset after the last record that was applied."""

    @property
    def connectors(self) -> dict[str, ConnectorState]:
        """The connectors that there are, by name."""
        return {name: one for name, one in self._all.items() if one.config_offset >= 0}

    def get(self, name: str) -> ConnectorState | None:
        """One connector; None if there is none of that name."""
        found = self._all.get(name)
        return found if found is not None and found.config_offset >= 0 else None

    def units(self) -> frozenset[Unit]:
        """Everything that needs an owner."""
        return frozenset(
            unit
            for name, connector in self.connectors.items()
            for unit in (Unit(name), *(Unit(name, task) for task in range(len(connector.tasks))))
        )

    def apply(self, key: str, value: Any, offset: int) -> Restart | None:
        """Take one record in; returns what it asks for, if it is a request and no state."""
        self.end = offset + 1
        # Tasks of fencing first: its prefix begins like that of a task.
        if key.startswith(FENCING_PREFIX):
            self._apply_fencing(self._of(key, FENCING_PREFIX), value, offset)
        elif key.startswith(TARGET_PREFIX):
            self._apply_target(self._of(key, TARGET_PREFIX), value)
        elif key.startswith(CONNECTOR_PREFIX):
            self._apply_connector(self._of(key, CONNECTOR_PREFIX), value, offset)
        elif key.startswith(COMMIT_PREFIX):
            self._apply_commit(self._of(key, COMMIT_PREFIX), value, offset)
        elif key.startswith(TASK_PREFIX):
            name, _, number = key.removeprefix(TASK_PREFIX).rpartition("-")
            if value is not None and number.isdigit():
                self._of(name).waiting[int(number)] = _properties(value)
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
        name, _, number = key.removeprefix(RESTART_TASK_PREFIX).rpartition("-")
        if number.isdigit():
            return Restart(Unit(name, int(number)))
    return None


@dataclass(frozen=True)
class Status:
    """How a connector or task is, and where."""

    state: str
    worker_id: str
    generation: int = 0
    trace: str | None = None
    version: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The value of its record."""
        return {
            "state": self.state,
            "trace": self.trace,
            "worker_id": self.worker_id,
            "generation": self.generation,
            "version": self.version,
        }


def status_key(unit: Unit) -> str:
    """The key of a unit's status."""
    if unit.task == CONNECTOR:
        return f"{STATUS_CONNECTOR_PREFIX}{unit.connector}"
    return f"{STATUS_TASK_PREFIX}{unit.connector}-{unit.task}"


def topic_key(topic: str, connector: str) -> str:
    """The key of the record that says: this connector uses this topic."""
    return f"{STATUS_TOPIC_PREFIX}{topic}{TOPIC_SEPARATOR}{connector}"


class StatusState:
    """The fold over the status topic."""

    def __init__(self) -> None:
        self.statuses: dict[Unit, Status] = {}
        self._tasks: dict[str, set[int]] = {}
        """The numbers of each connector's tasks: there may be thousands of connectors."""
        self.topics: dict[str, set[str]] = {}
        """The topics that each connector has used."""

    def apply(self, key: str, value: Any) -> None:
        """Take one record in."""
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
        """The states of a connector's tasks, by their numbers."""
        numbers = sorted(self._tasks.get(connector, ()))
        return {one: self.statuses[Unit(connector, one)] for one in numbers if one >= 0}


def _status_unit(key: str) -> Unit | None:
    if key.startswith(STATUS_CONNECTOR_PREFIX):
        return Unit(key.removeprefix(STATUS_CONNECTOR_PREFIX))
    if key.startswith(STATUS_TASK_PREFIX):
        name, _, number = key.removeprefix(STATUS_TASK_PREFIX).rpartition("-")
        if number.isdigit():
            return Unit(name, int(number))
    return None


def offset_key(connector: str, source_partition: Mapping[str, Any]) -> str:
    """The key under which an offset is stored: as Kafka writes it, so that compaction finds it."""
    return json.dumps([connector, dict(source_partition)], separators=(",", ":"))


class OffsetState:
    """The fold over the offsets topic."""

    def __init__(self) -> None:
        self._offsets: dict[tuple[str, str], tuple[str, dict[str, Any], dict[str, Any]]] = {}

    def apply(self, key: str, value: Any) -> None:
        """Take one record in; what is no offset is passed over."""
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
        """How far a connector has delivered a partition of its source."""
        found = self._offsets.get((connector, _canonical(source_partition)))
        return None if found is None else found[2]

    def key(self, connector: str, source_partition: Mapping[str, Any]) -> str:
        """The key to store it under: the one that is there already, however it was written."""
        found = self._offsets.get((connector, _canonical(source_partition)))
        return offset_key(connector, source_partition) if found is None else found[0]

    def of(self, connector: str) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
        """All that is stored for a connector: the records' keys, partitions and offsets."""
        return [found for (name, _), found in self._offsets.items() if name == connector]


def _canonical(source_partition: Mapping[str, Any]) -> str:
    return json.dumps(source_partition, sort_keys=True)
