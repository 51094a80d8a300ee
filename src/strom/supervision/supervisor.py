"""Keeps a child process running: restarts it with backoff when it exits."""

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from strom.model.retries import Restarts, RetryPolicy
from strom.supervision.child_process import ChildProcess, StartFailed

RESTART = RetryPolicy(first_s=0.5, longest_s=30.0)


class Supervisor:
    """Runs a child from `start` to `stop`; `on_exit` gets a message whenever it exits by itself.

    With `must_start`, a first start that fails is final, and only `wait_ready` reports it.
    """

    def __init__(
        self,
        child: ChildProcess,
        on_exit: Callable[[str], None],
        policy: RetryPolicy = RESTART,
        *,
        must_start: bool = False,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._child = child
        self._on_exit = on_exit
        self._must_start = must_start
        self._restarts = Restarts(policy)
        self._chance = chance
        self._stopping = threading.Event()
        self._first_ready: Future[str] = Future()
        self._thread = threading.Thread(target=self._run, name=child.name, daemon=True)

    def start(self) -> None:
        """Start the child, without waiting until it is ready."""
        self._thread.start()

    def wait_ready(self, timeout_s: float) -> str:
        """The child's ready line; StartFailed if its first start failed or timed out."""
        try:
            return self._first_ready.result(timeout_s)
        except TimeoutError:
            raise StartFailed(f"{self._child.name} was not ready after {timeout_s:g} s.") from None

    def stop(self) -> None:
        """Stop the child for good."""
        self._stopping.set()
        self._child.close()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            reason = self._run_once()
            self._child.stop()  # closes the pipes of a child that has exited
            if self._stopping.is_set() or self._has_given_up():
                return
            pause = self._restarts.delay(time.monotonic() - began, self._chance())
            self._on_exit(f"{reason} Restarting in {pause:.1f} s.")
            self._stopping.wait(pause)

    def _has_given_up(self) -> bool:
        return self._must_start and self._first_ready.exception() is not None

    def _run_once(self) -> str:
        """Run the child until it exits; the message to report."""
        try:
            line = self._child.start()
            if not self._first_ready.done():
                self._first_ready.set_result(line)
            return f"{self._child.name} exited with code {self._child.wait()}."
        except StartFailed as error:
            if not self._first_ready.done():
                self._first_ready.set_exception(error)
            return str(error)
