"""Long work on queues, in slices or in tasks, so that no client waits for another's work to end.

Each turn of the event loop does one slice, of one job after another. Short jobs are done at once, up to
one slice per turn.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from strom.model.errors import DirectoryOffline, StromError

log = logging.getLogger(__name__)

SLICE = 1000
"""Messages that are settled in one turn of the event loop: a few milliseconds."""

Step: TypeAlias = Callable[[], bool]
"""Does one slice of a job; returns whether there is more."""


class Slices:
    """The jobs in progress."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._steps: deque[Step] = deque()
        self._done_at_once = 0.0
        """How many slices this turn has already done at once."""
        self._is_due = False

    def run(self, step: Step, slices: float) -> bool:
        """Do a job of at most `slices` slices, at once if that is little; True if it is done."""
        if self._done_at_once + slices <= 1:
            self._done_at_once += slices
            self._soon()
            if not step():
                return True
        self.add(step)
        return False

    def add(self, step: Step) -> None:
        """Do a job in the following turns."""
        self._steps.append(step)
        self._soon()

    async def finish(self) -> None:
        """Do all remaining slices, before the broker stops."""
        while self._steps:
            self._turn()
            await asyncio.sleep(0)

    def _soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_due = False
        self._done_at_once = 0.0
        if not self._steps:
            return
        step = self._steps.popleft()
        try:
            if step():
                self._steps.append(step)
        finally:
            if self._steps:
                self._soon()


class BackgroundTasks:
    """Work that waits, mostly for the disk.

    A failure is logged; `on_offline` is called if the data directory is offline.
    """

    def __init__(self, on_offline: Callable[[DirectoryOffline], None]) -> None:
        self._on_offline = on_offline
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def run(self, work: Coroutine[Any, Any, Any]) -> None:
        """Start a task; `finish` waits for it."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def finish(self, timeout_s: float) -> None:
        """Return when all tasks are done, or after the timeout."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)

    def _done(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, DirectoryOffline):
            self._on_offline(error)
        elif error is not None:
            trace = None if isinstance(error, StromError) else error
            log.error("Work on queues failed: %s", error, exc_info=trace)
