"""What a worker runs: a thread for each connector and task, started again when it fails."""

import logging
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from strom.connect.api import ConnectError, RetriableError
from strom.connect.runtime.assignment import Unit
from strom.connect.runtime.membership import Lease
from strom.connect.runtime.secrets import Secrets
from strom.connect.runtime.settings import CommonSettings
from strom.metrics.connect import TaskStats
from strom.model.errors import StromError

T = TypeVar("T")

_FIRST_RETRY_S = 0.1
_TELL_AGAIN_S = 5.0
_FRESH_AFTER_S = 60.0
"""Who ran for so long before failing begins again with the shortest wait."""


class Ended(Exception):
    """Not an error: the runner was told to stop, or lost its lease."""


@dataclass(frozen=True)
class RunnerContext:
    """What every runner is given."""

    holds_lease: Lease
    secrets: Secrets
    report: Callable[[Unit, str, str | None], None]
    """Tells the state of a unit, with a trace if it failed."""


class Runner(ABC):
    """One unit's thread, from `start` until it has stopped."""

    def __init__(self, unit: Unit, common: CommonSettings, context: RunnerContext) -> None:
        self.unit = unit
        self.common = common
        self.context = context
        self.stopping = threading.Event()
        self.paused = threading.Event()
        self.failed = False
        self.state = "UNASSIGNED"
        self.stats = TaskStats()
        self._untold: tuple[str, str | None] | None = None
        self._tell_again_at = 0.0
        self.log = logging.LoggerAdapter(
            logging.getLogger("strom.connect.task"), {"connector": unit.connector}
        )
        self._thread = threading.Thread(target=self._run, name=f"connect-{unit}", daemon=True)

    @abstractmethod
    def work(self) -> None:
        """Do the work until told to stop; whatever it raises is a failure."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end; does not wait."""
        self.stopping.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end; False if it has not come."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def report_state(self, state: str, trace: str | None = None) -> None:
        """Report a state, once."""
        if state != self.state or trace is not None:
            self.state = state
            self._untold = (state, trace)
            self._tell_state()

    def _tell_state(self) -> None:
        """Tell a state that is not told yet. Without a lease it is another's to tell."""
        if self._untold is None or not self.context.holds_lease():
            return
        try:
            self.context.report(self.unit, *self._untold)
            self._untold = None
        except RetriableError as error:
            self.log.warning("The state of %s is not told yet: %s", self.unit, error)
            self._tell_again_at = time.monotonic() + _TELL_AGAIN_S

    def check(self) -> None:
        """Raise Ended when this runner shall not go on."""
        if self.stopping.is_set() or not self.context.holds_lease():
            raise Ended
        if self._untold is not None and time.monotonic() >= self._tell_again_at:
            self._tell_state()

    def retry(
        self, call: Callable[[], T], doing: str, pause: Callable[[float], object] | None = None
    ) -> T:
        """Make a call again and again while the other side is away, with growing waits.

        `pause` waits for so many seconds, where more is to do than to wait for the stop.
        """
        wait, deadline, told = _FIRST_RETRY_S, self._patience(), False
        while True:
            try:
                return call()
            except RetriableError as error:
                self.check()
                self.stats.retries += 1
                if deadline is not None and time.monotonic() >= deadline:
                    raise ConnectError(
                        f"{doing}: still impossible after all tries: {error}"
                    ) from error
                if not told:
                    waits = f"{doing} waits: {self.context.secrets.hide(str(error))}"
                    self.log.warning("%s", waits)
                    if self.state == "UNASSIGNED":  # it has not begun yet: say what it waits for
                        self.report_state("UNASSIGNED", waits)
                    told = True
                (pause or self.stopping.wait)(wait)
                wait = min(2 * wait, self.common.retry_delay_max_ms / 1000)

    def _patience(self) -> float | None:
        limit = self.common.retry_timeout_ms
        return time.monotonic() + limit / 1000 if limit > 0 else None

    def _run(self) -> None:
        wait = self.common.restart_backoff_ms / 1000
        while not self.stopping.is_set():
            began = time.monotonic()
            try:
                self.work()
                return
            except Ended:
                return
            except Exception as error:  # noqa: BLE001 - any connector's code runs here
                self._tell(error)
            if time.monotonic() - began > _FRESH_AFTER_S:
                wait = self.common.restart_backoff_ms / 1000
            if self.common.restart_backoff_ms == 0:
                self.stopping.wait()
                return
            self.stopping.wait(wait)
            if not self.context.holds_lease():
                return
            wait = min(2 * wait, self.common.restart_backoff_max_ms / 1000)

    def _tell(self, error: BaseException) -> None:
        hide = self.context.secrets.hide
        told = isinstance(error, StromError)
        trace = hide(
            f"{type(error).__name__}: {error}"
            if told
            else "".join(traceback.format_exception(error))
        )
        self.failed = True
        self.stats.failures += 1
        self.log.error("%s failed: %s", self.unit, trace if not told else hide(str(error)))
        self.report_state("FAILED", trace)


def log_and_ignore(call: Callable[[], Any], log: logging.LoggerAdapter[logging.Logger]) -> None:
    """Make a call while cleaning up: what fails is logged and does not hide the first error."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - any connector's code runs here
        log.debug("While stopping: %s", error)
