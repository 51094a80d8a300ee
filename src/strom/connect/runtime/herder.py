"""Reconciles what runs on this worker with its assignment and the configurations."""

import logging
import threading
import time
from collections.abc import Callable, Iterable

import strom
from strom.connect.api import RetriableError
from strom.connect.runtime.assignment import CONNECTOR, Unit, WorkerAssignment
from strom.connect.runtime.runner import UnitRunner
from strom.connect.runtime.state import ConnectorState, Restart, Status, Target
from strom.connect.runtime.stores import Stores

log = logging.getLogger(__name__)

_POLL_S = 0.1
MakeRunner = Callable[[Unit, ConnectorState], UnitRunner]
Generation = tuple[int, int]
"""The offset of a runner's configuration, and the number of requested restarts."""


class Herder:
    """Starts and stops runners; assignments come in from the thread of the group membership."""

    def __init__(self, stores: Stores, make: MakeRunner, worker_id: str, graceful_s: float) -> None:
        self._stores = stores
        self._make = make
        self._worker_id = worker_id
        self._graceful_s = graceful_s
        self._lock = threading.RLock()
        self._assigned = WorkerAssignment()
        self._runners: dict[Unit, tuple[Generation, UnitRunner]] = {}
        self._starts: dict[Unit, int] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="connect-herder", daemon=True)
        self.holds_lease: Callable[[], bool] = lambda: False
        self.rejoin: Callable[[], None] = lambda: None
        self.wake_leader: Callable[[], None] = lambda: None
        stores.on_restart = self._restart

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop all runners, and wait for them up to task.shutdown.graceful.timeout.ms."""
        self._stopping.set()
        self._thread.join()
        with self._lock:
            self._assigned = WorkerAssignment()
            self._stop_all()

    def claims(self) -> Iterable[Unit]:
        """What runs here, or is assigned and may be started at any moment."""
        with self._lock:
            return self._assigned.units | self._running()

    def work(self) -> tuple[Iterable[Unit], int]:
        """All units as of the end of the config topic, and that end."""
        self._stores.catch_up()
        return self._stores.units(), self._stores.config_end

    def wanted(self) -> frozenset[Unit]:
        """All units as far as this worker has read the config topic."""
        return self._stores.units()

    def on_assigned(self, assigned: WorkerAssignment) -> None:
        with self._lock:
            self._assigned = assigned
        self._stores.changed.set()

    def on_lost(self) -> None:
        """Stop everything now: it may be assigned to other workers."""
        with self._lock:
            self._assigned = WorkerAssignment()
            self._stop_all()
            for unit in self._running():
                log.error(
                    "%s does not stop although it is not assigned: end this worker.",
                    unit,
                )
            self._runners.clear()

    def status(self, state: str, trace: str | None = None) -> Status:
        """A status with this worker's id and generation."""
        return Status(state, self._worker_id, self._assigned.generation, trace, strom.__version__)

    def runners(self) -> list[UnitRunner]:
        """What runs here, in no order. Without the lock, which a stop holds for seconds."""
        return [runner for _, runner in tuple(self._runners.values())]

    def _running(self) -> set[Unit]:
        return {unit for unit, (_, runner) in self._runners.items() if runner.alive}

    def _run(self) -> None:
        while not self._stopping.is_set():
            if self._stores.changed.wait(_POLL_S):
                self._stores.changed.clear()
                self.wake_leader()
            try:
                self._reconcile()
            except Exception:
                log.exception("The worker cannot reconcile its tasks; it retries.")
                self._stopping.wait(1)

    def _reconcile(self) -> None:
        with self._lock:
            if self._stores.config_end < self._assigned.config_end:
                return  # the leader had read more of the config topic
            wanted = self._wanted_here()
            for unit, (generation, runner) in list(self._runners.items()):
                if wanted.get(unit) != generation:
                    runner.stop()
                if not runner.alive:
                    self._on_ended(unit)
            if self.holds_lease():
                for unit, generation in wanted.items():
                    if unit not in self._runners:
                        self._begin(unit, generation)
            self._apply_pauses()

    def _wanted_here(self) -> dict[Unit, Generation]:
        wanted: dict[Unit, Generation] = {}
        for unit in self._assigned.units:
            connector = self._stores.connector(unit.connector)
            if connector is None or unit.task >= len(connector.tasks):
                continue
            offset = connector.config_offset if unit.task == CONNECTOR else connector.tasks_offset
            wanted[unit] = (offset, self._starts.get(unit, 0))
        return wanted

    def _begin(self, unit: Unit, generation: Generation) -> None:
        connector = self._stores.connector(unit.connector)
        if connector is None:
            return
        runner = self._make(unit, connector)
        if connector.target is Target.PAUSED:
            runner.paused.set()
        self._runners[unit] = (generation, runner)
        runner.start()

    def _on_ended(self, unit: Unit) -> None:
        """Write the status of an ended runner, and rejoin so that a revoked unit can be assigned."""
        del self._runners[unit]
        if unit in self._stores.units():
            if unit not in self._assigned.units:
                self._stores.write_status(unit, self.status("UNASSIGNED"))
        else:
            self._stores.write_status(unit, None)
        if unit not in self._assigned.units:
            self.rejoin()

    def _apply_pauses(self) -> None:
        for unit, (_, runner) in self._runners.items():
            connector = self._stores.connector(unit.connector)
            if connector is not None and unit.task != CONNECTOR:
                if connector.target is Target.PAUSED:
                    runner.paused.set()
                else:
                    runner.paused.clear()

    def _restart(self, restart: Restart) -> None:
        """Note a requested restart; called while the config topic is read."""
        name = restart.unit.connector
        # The stores' lock is held here: units are only marked, and the herder's thread restarts them.
        for unit, (_, runner) in list(self._runners.items()):
            is_meant = unit == restart.unit or (restart.include_tasks and unit.connector == name)
            if is_meant and (runner.state == "FAILED" or not restart.only_failed):
                self._starts[unit] = self._starts.get(unit, 0) + 1

    def _stop_all(self) -> None:
        for _, runner in self._runners.values():
            runner.stop()
        deadline = time.monotonic() + self._graceful_s
        ended = [
            unit
            for unit, (_, runner) in self._runners.items()
            if runner.join(max(0.0, deadline - time.monotonic()))
        ]
        for unit in ended:
            del self._runners[unit]
        try:
            # Without a lease, another worker may run it and has written its status.
            for unit in ended:
                if self.holds_lease() and unit in self._stores.units():
                    self._stores.write_status(unit, self.status("UNASSIGNED"))
        except RetriableError as error:
            log.warning("The last states cannot be written: %s", error)
