"""The commands of the REST interface. Any worker can run them all: they write to the topics.

Those on offsets are in `offset_commands.py`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from strom.connect.api import ConnectError, InvalidSettings
from strom.connect.runtime.assignment import CONNECTOR, Unit
from strom.connect.runtime.secrets import masked, unmasked
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
from strom.connect.runtime.validation import passwords_of
from strom.connect.runtime.worker import ConnectWorker


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
            full_config = unmasked(full_config, known.config)
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
        try:
            passwords = passwords_of(self.worker.checker.plugin(config))
        except (ConnectError, ImportError):
            passwords = set()  # not installed here: passwords are recognised by name
        return masked(config, passwords)


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
