"""The commands of the REST interface. Any worker can run them all: they write to the topics."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaException

from strom.client.groups import Committed, alter_offsets, committed_offsets, delete_group
from strom.client.kafka_errors import error_name
from strom.connect.api import ConnectError, InvalidSettings, RetriableError, SinkConnector
from strom.connect.api import TopicPartition as Place
from strom.connect.runtime import masking
from strom.connect.runtime.assignment import CONNECTOR, Unit
from strom.connect.runtime.sink_session import group_of
from strom.connect.runtime.state import (
    COMMIT_PREFIX,
    CONNECTOR_PREFIX,
    RESTART_PREFIX,
    RESTART_TASK_PREFIX,
    TARGET_PREFIX,
    ConnectorState,
    Status,
    Target,
)
from strom.connect.runtime.stores import Record
from strom.connect.runtime.worker import ConnectWorker
from strom.model.settings import Kind
from strom.model.topics import TopicPartition

Offset = tuple[Mapping[str, Any], Mapping[str, Any] | None]


class NotFound(ConnectError):
    """The connector, task or logger does not exist."""


class AlreadyExists(ConnectError):
    """A connector of that name exists."""


class BadRequest(ConnectError):
    """The request is invalid, or not possible in the present state."""


class Commands:
    def __init__(self, worker: ConnectWorker) -> None:
        self.worker = worker
        self._stores = worker.stores

    def connector(self, name: str, wording: str = "Connector {} not found") -> ConnectorState:
        """The connector of this name, or NotFound."""
        found = self._stores.connector(name)
        if found is None:
            raise NotFound(wording.format(name))
        return found

    def put(
        self,
        name: str,
        config: Mapping[str, str],
        *,
        replace: bool,
        target: Target | None = None,
    ) -> bool:
        """Create or change a connector; True if it is new. BadRequest lists all problems."""
        self._stores.catch_up()
        known = self._stores.connector(name)
        if known is not None and not replace:
            raise AlreadyExists(f"Connector {name} already exists")
        full_config = {**config, "name": name}
        if known is not None:
            full_config = masking.unmasked(full_config, known.config)
        problems = self.worker.checker.problems(full_config)
        if problems:
            raise BadRequest(_invalid_config(problems))
        records: list[Record] = []
        if known is None and target is not None:
            records.append((f"{TARGET_PREFIX}{name}", target.to_json()))
        records.append((f"{CONNECTOR_PREFIX}{name}", {"properties": full_config}))
        self._stores.write_config(records)
        return known is None

    def patch(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Change some settings of a connector; None removes one."""
        config: dict[str, str | None] = {**self.connector(name).config, **changes}
        self.put(
            name, {key: text for key, text in config.items() if text is not None}, replace=True
        )

    def delete(self, name: str) -> None:
        """Remove a connector. Its offsets stay, as in Kafka."""
        self._stores.catch_up()
        self.connector(name)
        self._stores.write_config(
            [
                (f"{CONNECTOR_PREFIX}{name}", None),
                (f"{TARGET_PREFIX}{name}", None),
                (f"{COMMIT_PREFIX}{name}", None),
            ]
        )

    def set_target(self, name: str, target: Target) -> None:
        """Set the state that a connector is to reach: running, paused or stopped."""
        self.connector(name, "Unknown connector {}")
        self._stores.write_config([(f"{TARGET_PREFIX}{name}", target.to_json())])

    def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> None:
        """Restart a connector, with its tasks if `include_tasks`."""
        self.connector(name, "Unknown connector: {}")
        request = {"include-tasks": include_tasks, "only-failed": only_failed}
        self._stores.write_config([(f"{RESTART_PREFIX}{name}", request)])

    def restart_task(self, name: str, task: int) -> None:
        if task >= len(self.connector(name, "Unknown connector: {}").tasks):
            raise NotFound(f"Unknown task: {name}-{task}")
        self._stores.write_config([(f"{RESTART_TASK_PREFIX}{name}-{task}", {})])

    def kind(self, name: str) -> str:
        """`source` or `sink`; InvalidSettings if this worker has no such class."""
        return self.worker.checker.plugin(self.connector(name).config).kind

    def shown_kind(self, name: str) -> str:
        """The same for display: `unknown`, as in Kafka, if this worker has no such class."""
        try:
            return self.kind(name)
        except InvalidSettings:
            return "unknown"

    def shown(self, config: Mapping[str, str]) -> dict[str, str]:
        """A configuration with its passwords masked."""
        return masking.masked(config, self._passwords(config))

    def offsets(self, name: str) -> list[Offset]:
        """The stored offsets of a connector, by partition."""
        if self.kind(name) == "source":
            self._stores.offsets.catch_up_visible()
            return list(self._stores.offsets.of(name))
        committed: Mapping[Any, Committed] = {}
        with _group_calls(group_of(name)):
            committed = committed_offsets(self.worker.admin, group_of(name))
        return [
            (
                {"kafka_topic": place.topic, "kafka_partition": place.partition},
                {"kafka_offset": one.offset},
            )
            for place, one in committed.items()
        ]

    def alter_offsets(self, name: str, offsets: Sequence[Offset]) -> None:
        """Set offsets of a stopped connector; None removes a partition's offset."""
        self._must_be_stopped(name)
        if self.kind(name) == "source":
            self._write_offsets(name, offsets)
        else:
            self._alter_group(name, offsets)

    def reset_offsets(self, name: str) -> None:
        """Remove all offsets of a stopped connector."""
        self._must_be_stopped(name)
        if self.kind(name) == "source":
            self._stores.offsets.catch_up()
            forgotten: list[Offset] = [(one, None) for one, _ in self._stores.offsets.of(name)]
            self._write_offsets(name, forgotten)
            return
        self._set_own_positions(name, self._beginnings(name))
        with _group_calls(group_of(name)):
            delete_group(self.worker.admin, group_of(name))

    def _beginnings(self, name: str) -> dict[Place, int]:
        """Offset 0 of all partitions that a sink may have read.

        The group may lack partitions that the sink stores: a deleted topic's offsets are deleted too.
        """
        known = {(one["kafka_topic"], one["kafka_partition"]) for one, _ in self.offsets(name)}
        present = self.worker.admin.list_topics(timeout=10).topics
        for topic in self._stores.topics(name):
            if topic in present:
                known |= {(topic, partition) for partition in present[topic].partitions}
        return {Place(topic, partition): 0 for topic, partition in sorted(known)}

    def _write_offsets(self, name: str, offsets: Sequence[Offset]) -> None:
        records = self._stores.offsets.records(name, offsets)
        self._stores.offsets.write(records)
        self._stores.offsets.catch_up_visible()

    def _alter_group(self, name: str, offsets: Sequence[Offset]) -> None:
        wanted: dict[Place, int] = {}
        for partition, offset in offsets:
            try:
                place = Place(str(partition["kafka_topic"]), int(partition["kafka_partition"]))
                wanted[place] = 0 if offset is None else int(offset["kafka_offset"])
            except (KeyError, TypeError, ValueError):
                raise BadRequest(
                    'The partition of a sink is {"kafka_topic": …, "kafka_partition": …}, its offset '
                    '{"kafka_offset": …}.'
                ) from None
            if wanted[place] < 0:
                raise BadRequest(f"Invalid offset {wanted[place]}: it must be 0 or greater.")
        self._check_partitions(wanted)
        self._set_own_positions(name, wanted)
        with _group_calls(group_of(name)):
            offsets_of_group = {TopicPartition(*place): one for place, one in wanted.items()}
            alter_offsets(self.worker.admin, group_of(name), offsets_of_group)

    def _check_partitions(self, places: Iterable[Place]) -> None:
        """Refuse unknown partitions before anything is changed."""
        present = self.worker.admin.list_topics(timeout=10).topics
        for place in places:
            topic = present.get(place.topic)
            if topic is None or place.partition not in topic.partitions:
                raise BadRequest(f"Unknown partition {place.partition} of topic {place.topic}.")

    def _set_own_positions(self, name: str, wanted: Mapping[Place, int]) -> None:
        """Set the positions that a sink itself stores; BadRequest if it cannot."""
        made = self.worker.checker.make(self.connector(name).config)
        if isinstance(made, SinkConnector) and wanted:
            try:
                made.set_positions(name, wanted)
            except RetriableError:
                raise
            except ConnectError as error:
                raise BadRequest(self.worker.secrets.hide(str(error))) from None

    def _must_be_stopped(self, name: str) -> None:
        self._stores.catch_up()
        connector = self.connector(name)
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

    def _passwords(self, config: Mapping[str, str]) -> set[str]:
        definitions: Mapping[str, Any] = {}
        try:
            kind = self.worker.checker.plugin(config)
            definitions = kind.load().settings_class.definitions()
        except (ConnectError, ImportError):
            pass  # not installed here: passwords are recognised by name
        return {name for name, one in definitions.items() if one.kind is Kind.PASSWORD}


def status_of(commands: Commands, name: str) -> dict[str, Any]:
    """The states of a connector and its tasks, for REST."""
    stores = commands.worker.stores
    status = stores.status(Unit(name, CONNECTOR))
    if status is None or stores.connector(name) is None:
        raise NotFound(f"No status found for connector {name}")
    tasks = [{"id": task, **shown_status(one)} for task, one in stores.task_statuses(name).items()]
    return {
        "name": name,
        "connector": shown_status(status),
        "tasks": tasks,
        "type": commands.shown_kind(name),
    }


def shown_status(status: Status) -> dict[str, str]:
    shown = {"state": status.state, "worker_id": status.worker_id}
    if status.trace:
        shown["trace"] = status.trace
    if status.version:
        shown["version"] = status.version
    return shown


def info_of(commands: Commands, name: str) -> dict[str, Any]:
    """A connector's configuration and tasks, for REST."""
    connector = commands.connector(name)
    return {
        "name": name,
        "config": commands.shown(connector.config),
        "tasks": [{"connector": name, "task": task} for task in range(len(connector.tasks))],
        "type": commands.shown_kind(name),
    }


def _invalid_config(problems: Mapping[str, Sequence[str]]) -> str:
    lines = [text for texts in problems.values() for text in texts]
    return (
        f"Connector configuration is invalid and contains the following {len(lines)} error(s):\n"
        + "\n".join(lines)
        + "\nYou can also find the above list of errors at the endpoint "
        "`/connector-plugins/{connectorType}/config/validate`"
    )


@contextlib.contextmanager
def _group_calls(group: str) -> Iterator[None]:
    """Raise RetriableError for errors of Kafka; a group that does not exist has no offsets."""
    try:
        yield
    except KafkaException as error:
        if error_name(error) != "GROUP_ID_NOT_FOUND":
            raise RetriableError(f"The group {group}: {error.args[0].str()}") from None
