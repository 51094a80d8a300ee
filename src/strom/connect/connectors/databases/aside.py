"""One call at a time beside the caller's own work."""

import threading
from collections.abc import Callable
from concurrent.futures import Future


class Aside:
    """Runs a call in a thread of its own; whoever begins the next has to finish it first."""

    def __init__(self) -> None:
        self._running: Future[None] | None = None

    def begin(self, call: Callable[[], None]) -> None:
        """Start it, and return at once."""
        running = self._running = Future[None]()

        def run() -> None:
            try:
                call()
            except BaseException as error:  # noqa: BLE001 - raised by `finish`
                running.set_exception(error)
            else:
                running.set_result(None)

        # A daemon: a database that never answers must not keep the worker from ending.
        threading.Thread(target=run, name="store-aside", daemon=True).start()

    def finish(self) -> None:
        """Wait for it, if there is one, and raise what it raised."""
        running, self._running = self._running, None
        if running is not None:
            running.result()
