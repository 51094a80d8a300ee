"""Everything that runs on this worker, brought into line with its share and the configurations."""

import logging
import threading
import time
from collections.abc import Callable, Iterable

import strom
from strom.connect.api import RetriableError
from strom.connect.runtime.assignment import CONNECTOR, Unit
from strom.connect.runtime.membership import Share
from strom.connect.runtime.runner import Runner
from strom.connect.runtime.state import ConnectorState, Restart, Status, Target
from strom.connect.runtime.stores import Stores

log = logging.getLogger(__name__)

_LOOK_S = 0.1
MakeRunner = Callable[[Unit, ConnectorState], Runner]
Generation = tuple[int, int]
"""Which configuration a runner has, and how often a new start was asked for."""


class Herder:
    """Starts and stops runners; what the group gives and takes comes in from its thread."""

    def __init__(self, stores: Stores, make: MakeRunner, worker_id: str, graceful_s: float) -> None:
        self._stores = stores
        self._make = make
        self._worker_id = worker_id
        self._graceful_s = graceful_s
        self._guard = threading.RLock()
        self._share = Share()
        self._runners: dict[Unit, tuple[Generation, Runner]] = {}
        self._starts: dict[Unit, int] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="connect-herd", daemon=True)
        self.holds_lease: Callable[[], bool] = lambda: False
        self.rejoin: Callable[[], None] = lambda: None
        self.look: Callable[[], None] = lambda: None
        stores.on_restart = self._restart

    def start(self) -> None:
        """Begin to look after runners."""
        self._thread.start()

    def stop(self) -> None:
        """End all runners, waiting for them as long as is allowed."""
        self._stopping.set()
        self._thread.join()
        with self._guard:
            self._share = Share()
            self._stop_all()

    def claims(self) -> Iterable[Unit]:
        """What runs here, or was given to us and may be started any moment."""
        with self._guard:
            return self._share.units | self._running()

    def work(self) -> tuple[Iterable[Unit], int]:
        """Everything that needs an owner, from the very end of the config topic."""
        self._stores.catch_up()
        return self._stores.units(), self._stores.config_end

    def wanted(self) -> frozenset[Unit]:
        """Everything that needs an owner, as far as it is known here."""
        return self._stores.units()

    def given(self, share: Share) -> None:
        """Take over a share."""
        with self._guard:
            self._share = share
        self._stores.changed.set()

    def lost(self) -> None:
        """Stop everything now: others may have been given it."""
        with self._guard:
            self._share = Share()
            self._stop_all()
            for unit in self._running():
                log.error("%s does not stop. It runs on without a share: end this worker.", unit)
            self._runners.clear()

    def status(self, state: str, trace: str | None = None) -> Status:
        """A state as this worker tells it."""
        return Status(state, self._worker_id, self._share.generation, trace, strom.__version__)

    def runners(self) -> list[Runner]:
        """What runs here now, in no order. Not guarded: stopping holds the guard for seconds."""
        return [runner for _, runner in tuple(self._runners.values())]

    def _running(self) -> set[Unit]:
        return {unit for unit, (_, runner) in self._runners.items() if runner.alive}

    def _run(self) -> None:
        while not self._stopping.is_set():
            if self._stores.changed.wait(_LOOK_S):
                self._stores.changed.clear()
                self.look()
            try:
                self._bring_into_line()
            except Exception:
                log.exception("The worker cannot look after its tasks; it tries again.")
                self._stopping.wait(1)

    def _bring_into_line(self) -> None:
        with self._guard:
            if self._stores.config_end < self._share.config_end:
                return  # the leader knew more than we do yet
            wanted = self._wanted_here()
            for unit, (generation, runner) in list(self._runners.items()):
                if wanted.get(unit) != generation:
                    runner.stop()
                if not runner.alive:
                    self._let_go(unit)
            if self.holds_lease():
                for unit, generation in wanted.items():
                    if unit not in self._runners:
                        self._begin(unit, generation)
            self._pass_on_pauses()

    def _wanted_here(self) -> dict[Unit, Generation]:
        wanted: dict[Unit, Generation] = {}
        for unit in self._share.units:
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

    def _let_go(self, unit: Unit) -> None:
        """A runner has ended: say so, and let the group know if the unit is another's now."""
        del self._runners[unit]
        if unit in self._stores.units():
            if unit not in self._share.units:
                self._stores.tell(unit, self.status("UNASSIGNED"))
        else:
            self._stores.tell(unit, None)
        if unit not in self._share.units:
            self.rejoin()

    def _pass_on_pauses(self) -> None:
        for unit, (_, runner) in self._runners.items():
            connector = self._stores.connector(unit.connector)
            if connector is not None and unit.task != CONNECTOR:
                if connector.target is Target.PAUSED:
                    runner.paused.set()
                else:
                    runner.paused.clear()

    def _restart(self, restart: Restart) -> None:
        """Somebody asks for a new start; called while the config topic is read."""
        name = restart.unit.connector
        # The stores' lock is held here: units are marked, and the herd's thread does the rest.
        for unit, (_, runner) in list(self._runners.items()):
            meant = unit == restart.unit or (restart.include_tasks and unit.connector == name)
            if meant and (runner.state == "FAILED" or not restart.only_failed):
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
            # Without a lease another may run it, and has said so.
            for unit in ended:
                if self.holds_lease() and unit in self._stores.units():
                    self._stores.tell(unit, self.status("UNASSIGNED"))
        except RetriableError as error:
            log.warning("States are not told any more: %s", error)
