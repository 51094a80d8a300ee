"""Runs a connector itself: it splits its work into tasks, and stores their configurations."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaException

from strom.connect.api import ConnectError, RetriableError
from strom.connect.runtime.assignment import Unit
from strom.connect.runtime.clients import Clients
from strom.connect.runtime.runner import RunnerContext, UnitRunner
from strom.connect.runtime.settings import CommonSettings
from strom.connect.runtime.state import (
    COMMIT_PREFIX,
    FENCING_PREFIX,
    TASK_PREFIX,
    ConnectorState,
    Target,
)

REFRESH_S = 30.0
"""How often a connector is asked for its tasks again: there may be new tables or files."""
FENCE_S = 30.0
_ACTIVE_S, _POLL_S, _IDLE_POLL_S = 10.0, 0.1, 0.5
"""How often it polls its configuration: often after a change, else a thousand would keep a core busy."""


@dataclass(frozen=True)
class ConnectorJob:
    """What a run of a connector is made of."""

    split: Callable[[], Sequence[Mapping[str, str]]]
    """Asks the connector for the full configurations of its tasks."""
    state: Callable[[], ConnectorState | None]
    """Returns the connector's present state in the config topic."""
    write: Callable[[Sequence[tuple[str, Mapping[str, object] | None]]], None]
    """Appends to the config topic, and returns when this worker has read it back."""
    transactional_ids: Callable[[int], Sequence[str]]
    """The transactional ids of so many tasks; empty if the connector is at least once."""
    clients: Clients


class ConnectorRun(UnitRunner):
    def __init__(
        self, unit: Unit, job: ConnectorJob, context: RunnerContext, common: CommonSettings
    ) -> None:
        super().__init__(unit, common, context)
        self._job = job

    def work(self) -> None:
        """Keep the tasks' configurations up to date until it is stopped."""
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
                self._reconcile(state)
            is_active = time.monotonic() - changed_at < _ACTIVE_S
            self.stopping.wait(_POLL_S if is_active else _IDLE_POLL_S)

    def _reconcile(self, state: ConnectorState) -> None:
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
        """Fence every task of an older generation: `init_transactions` fences its producers."""
        known = max(len(state.tasks), state.fenced_tasks) if earlier is None else earlier
        ids = self._job.transactional_ids(max(known, tasks)) if known else ()
        for transactional_id in ids:
            self.check()
            self.retry(lambda one=transactional_id: self._fence_producer(one), "Fencing")  # type: ignore[misc]
        record = (f"{FENCING_PREFIX}{self.unit.connector}", {"task-count": tasks})
        self.retry(lambda: self._job.write([record]), "Storing tasks")

    def _fence_producer(self, transactional_id: str) -> None:
        producer = self._job.clients.producer({"transactional.id": transactional_id})
        try:
            producer.init_transactions(FENCE_S)
        except KafkaException as error:
            raise RetriableError(f"{transactional_id}: {error.args[0].str()}") from None
