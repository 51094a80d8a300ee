"""A connector itself: splits the work into tasks, and writes their configurations to the log."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaException

from strom.connect.api import ConnectError, RetriableError
from strom.connect.runtime.assignment import Unit
from strom.connect.runtime.clients import Clients
from strom.connect.runtime.runner import Runner, RunnerContext
from strom.connect.runtime.settings import CommonSettings
from strom.connect.runtime.state import (
    COMMIT_PREFIX,
    FENCING_PREFIX,
    TASK_PREFIX,
    ConnectorState,
    Target,
)

REFRESH_S = 30.0
"""How often a connector is asked whether its work splits differently by now: new tables, new files."""
FENCE_S = 30.0
_FRESH_S, _LOOK_S, _LOOK_SELDOM_S = 10.0, 0.1, 0.5
"""How often it looks at its configuration: a thousand connectors that look often keep a core busy."""


@dataclass(frozen=True)
class ConnectorJob:
    """What a connector's run needs."""

    split: Callable[[], Sequence[Mapping[str, str]]]
    """Asks the connector for its tasks; each configuration is whole."""
    state: Callable[[], ConnectorState | None]
    """The connector as the config topic has it at this moment."""
    write: Callable[[Sequence[tuple[str, Mapping[str, object] | None]]], None]
    """Appends to the config topic, and returns when it is read back."""
    transactional_ids: Callable[[int], Sequence[str]]
    """Of so many tasks; empty where the connector is at least once."""
    clients: Clients


class ConnectorRun(Runner):
    """Runs one connector."""

    def __init__(
        self, unit: Unit, job: ConnectorJob, context: RunnerContext, common: CommonSettings
    ) -> None:
        super().__init__(unit, common, context)
        self._job = job

    def work(self) -> None:
        """Keep the tasks' configurations as they should be until told to stop."""
        asked_at = changed_at = 0.0
        seen: Target | None = None
        while not self.stopping.is_set():
            self.check()
            state = self._job.state()
            if state is None:
                return
            if state.target is not seen or time.monotonic() - asked_at > REFRESH_S:
                if state.target is not seen:
                    changed_at = time.monotonic()
                seen, asked_at = state.target, time.monotonic()
                self._bring_up_to_date(state)
            fresh = time.monotonic() - changed_at < _FRESH_S
            self.stopping.wait(_LOOK_S if fresh else _LOOK_SELDOM_S)

    def _bring_up_to_date(self, state: ConnectorState) -> None:
        if state.target is Target.STOPPED:
            if state.tasks or state.tasks_offset < 0:
                self._commit(state, [])
            self.report_state("STOPPED")
            return
        tasks = self.retry(self._job.split, "Splitting the work")
        if not state.complete or list(state.tasks) != [dict(task) for task in tasks]:
            self._commit(state, tasks)
        elif state.fenced_offset < state.tasks_offset:
            self._fence(state, len(state.tasks))
        self.report_state("PAUSED" if state.target is Target.PAUSED else "RUNNING")

    def _commit(self, state: ConnectorState, tasks: Sequence[Mapping[str, str]]) -> None:
        name = self.unit.connector
        for task in tasks:
            own = {key: text for key, text in task.items() if state.config.get(key) != text}
            if any(self.context.secrets.hide(text) != text for text in own.values()):
                raise ConnectError(
                    f"{name} would store a secret in its tasks' configurations: its connector class "
                    "must not put secrets into task settings."
                )
        records: list[tuple[str, Mapping[str, object] | None]] = [
            (f"{TASK_PREFIX}{name}-{number}", {"properties": dict(task)})
            for number, task in enumerate(tasks)
        ]
        earlier = max(len(state.tasks), state.fenced_tasks)
        self.retry(
            lambda: self._job.write([*records, (f"{COMMIT_PREFIX}{name}", {"tasks": len(tasks)})]),
            "Storing tasks",
        )
        self._fence(state, len(tasks), earlier)

    def _fence(self, state: ConnectorState, tasks: int, earlier: int | None = None) -> None:
        """Shut out every run of an older generation: a new producer of the same id ends the old."""
        known = max(len(state.tasks), state.fenced_tasks) if earlier is None else earlier
        ids = self._job.transactional_ids(max(known, tasks)) if known else ()
        for transactional_id in ids:
            self.check()
            self.retry(lambda one=transactional_id: self._shut_out(one), "Fencing")  # type: ignore[misc]
        record = (f"{FENCING_PREFIX}{self.unit.connector}", {"task-count": tasks})
        self.retry(lambda: self._job.write([record]), "Storing tasks")

    def _shut_out(self, transactional_id: str) -> None:
        producer = self._job.clients.producer({"transactional.id": transactional_id})
        try:
            producer.init_transactions(FENCE_S)
        except KafkaException as error:
            raise RetriableError(f"{transactional_id}: {error.args[0].str()}") from None
