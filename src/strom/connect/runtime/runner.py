"""What a worker runs: a thread for each connector and task, restarted when it fails."""

import logging
import random
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from confluent_kafka import Message

from strom.connect.api import ConnectError, RetriableError
from strom.connect.runtime.assignment import Unit
from strom.connect.runtime.clients import Clients
from strom.connect.runtime.conversion import Conversion, StageError
from strom.connect.runtime.failures import Failures
from strom.connect.runtime.secrets import Secrets
from strom.connect.runtime.settings import CommonSettings
from strom.metrics.connect import TaskStats
from strom.model.errors import StromError
from strom.model.retries import Restarts, RetryPolicy
from strom.supervision.retrying import retry

Given = TypeVar("Given")
T = TypeVar("T")
S = TypeVar("S", bound=CommonSettings)
K = TypeVar("K")

_FIRST_RETRY_S = 0.1
_REPORT_AGAIN_S = 5.0


class Ended(Exception):
    """Not an error: the runner is stopped, or has lost its lease."""


@dataclass(frozen=True)
class RunnerContext:
    """What every runner needs of its worker."""

    holds_lease: Callable[[], bool]
    """Whether no other worker can have been assigned the unit yet."""
    secrets: Secrets
    report: Callable[[Unit, str, str | None], None]
    """Writes the state of a unit, with a trace if it failed."""


@dataclass(frozen=True, kw_only=True)
class TaskJob(Generic[S, K]):
    """What one run of a task is made of."""

    settings: S
    make_task: Callable[[Any], K]
    """Makes the connector's task, given its context."""
    conversion: Conversion
    clients: Clients
    flush_s: float
    uses_topic: Callable[[Unit, str], None]


class UnitRunner(ABC):
    """The thread of one unit."""

    def __init__(self, unit: Unit, common: CommonSettings, context: RunnerContext) -> None:
        self.unit = unit
        self.common = common
        self.context = context
        self.stopping = threading.Event()
        self.paused = threading.Event()
        self.state = "UNASSIGNED"
        self.stats = TaskStats()
        self._unreported: tuple[str, str | None] | None = None
        self._report_again_at = 0.0
        self.log = logging.LoggerAdapter(
            logging.getLogger("strom.connect.task"), {"connector": unit.connector}
        )
        timeout_ms = common.retry_timeout_ms
        self._policy = RetryPolicy(
            first_s=_FIRST_RETRY_S,
            longest_s=common.retry_delay_max_ms / 1000,
            deadline_s=timeout_ms / 1000 if timeout_ms > 0 else None,
        )
        self._thread = threading.Thread(target=self._run, name=f"connect-{unit}", daemon=True)

    @abstractmethod
    def work(self) -> None:
        """Run until the runner is stopped; an exception is a failure, after which it is restarted."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Request the end; does not wait."""
        self.stopping.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread; True if it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def report_state(self, state: str, trace: str | None = None) -> None:
        """Report a state if it is new."""
        if state != self.state or trace is not None:
            self.state = state
            self._unreported = (state, trace)
            self._report_pending()

    def _report_pending(self) -> None:
        """Write a state that is not written yet; without a lease it is another worker's to write."""
        if self._unreported is None or not self.context.holds_lease():
            return
        try:
            self.context.report(self.unit, *self._unreported)
            self._unreported = None
        except RetriableError as error:
            self.log.warning("The state of %s is not written yet: %s", self.unit, error)
            self._report_again_at = time.monotonic() + _REPORT_AGAIN_S

    def check(self) -> None:
        """Raise Ended if the runner must stop."""
        if self.stopping.is_set() or not self.context.holds_lease():
            raise Ended
        if self._unreported is not None and time.monotonic() >= self._report_again_at:
            self._report_pending()

    def retry(
        self, call: Callable[[], T], doing: str, pause: Callable[[float], object] | None = None
    ) -> T:
        """Retry a call on RetriableError, with backoff, until `errors.retry.timeout`.

        `pause` replaces the sleep between retries, where there is more to do meanwhile.
        """
        is_reported = False

        def on_failure(error: Exception, _: float) -> None:
            nonlocal is_reported
            self.check()
            self.stats.retries += 1
            if not is_reported:
                waits = f"{doing} waits: {self.context.secrets.hide(str(error))}"
                self.log.warning("%s", waits)
                if self.state == "UNASSIGNED":  # not started yet: report what it waits for
                    self.report_state("UNASSIGNED", waits)
                is_reported = True

        sleep = pause or self.stopping.wait
        try:
            return retry(call, self._policy, RetriableError, sleep=sleep, on_failure=on_failure)
        except RetriableError as error:
            self.check()
            timeout_ms = self.common.retry_timeout_ms
            raise ConnectError(
                f"{doing}: failed for {timeout_ms} ms (errors.retry.timeout): {error}"
            ) from error

    def convert(
        self,
        records: Sequence[Given],
        convert_all: Callable[[Sequence[Given]], Sequence[T]],
        convert_one: Callable[[Given], T | None],
        failures: Failures,
    ) -> Sequence[T]:
        """Convert records: all at once, or if one fails, one by one without those that fail."""
        try:
            return self.retry(lambda: convert_all(records), "Converting")
        except ConnectError:
            pass
        except Exception as error:  # noqa: BLE001 - transforms may raise anything; handled record by record
            self.log.debug("One of %d records cannot be converted: %s", len(records), error)
        converted = []
        for record in records:
            try:
                one = self.retry(lambda record=record: convert_one(record), "Converting")  # type: ignore[misc]
                if one is not None:
                    converted.append(one)
            except StageError as error:
                message = record if isinstance(record, Message) else None
                failures.handle(error.stage, error.executor, error.__cause__ or error, message)
        return converted

    def retry_delay(self, retry: int) -> float:
        """Seconds before a retry, counted from 0, for loops that cannot use `retry`."""
        return self._policy.delay(retry, random.random())  # noqa: S311 - jitter

    def _run(self) -> None:
        restarts = Restarts(
            RetryPolicy(
                first_s=self.common.restart_backoff_ms / 1000,
                longest_s=self.common.restart_backoff_max_ms / 1000,
            )
        )
        while not self.stopping.is_set():
            began = time.monotonic()
            try:
                self.work()
                return
            except Ended:
                return
            except Exception as error:  # noqa: BLE001 - any connector's code runs here
                self._report_failure(error)
            if self.common.restart_backoff_ms == 0:
                self.stopping.wait()
                return
            ran_s = time.monotonic() - began
            self.stopping.wait(restarts.delay(ran_s, random.random()))  # noqa: S311 - jitter
            if not self.context.holds_lease():
                return

    def _report_failure(self, error: BaseException) -> None:
        hide = self.context.secrets.hide
        is_expected = isinstance(error, StromError)
        trace = hide(
            f"{type(error).__name__}: {error}"
            if is_expected
            else "".join(traceback.format_exception(error))
        )
        self.stats.failures += 1
        self.log.error("%s failed: %s", self.unit, trace if not is_expected else hide(str(error)))
        self.report_state("FAILED", trace)


def log_and_ignore(call: Callable[[], Any], log: logging.LoggerAdapter[logging.Logger]) -> None:
    """Call during clean-up: an error is logged, so that it does not hide the first one."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - any connector's code runs here
        log.debug("While stopping: %s", error)
