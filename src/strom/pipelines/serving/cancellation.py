"""Cancels running statements."""

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from strom.model.errors import StromError

if TYPE_CHECKING:
    import duckdb

_INTERRUPT_INTERVAL_S = 0.02


class StatementCancelled(StromError):
    """A statement was cancelled before it had a result."""


class Cancellation:
    """Cancels the statements of one caller: the one in flight, and any that it starts afterwards."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cursor: duckdb.DuckDBPyConnection | None = None
        self._error: StromError | None = None

    def cancel(self, error: StromError | None = None) -> None:
        """Interrupt the statement, which raises the error. Call again until the statement has ended.

        DuckDB drops an interrupt that arrives just before a statement starts.
        """
        with self._lock:
            self._error = self._error or error or StatementCancelled("The statement was cancelled.")
            if self._cursor is not None:
                self._cursor.interrupt()

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    @contextlib.contextmanager
    def cancelling_after(self, seconds: float, error: StromError) -> Iterator[None]:
        """Cancel with an error when the block takes longer."""
        ended = threading.Event()

        def watch() -> None:
            pause = seconds
            while not ended.wait(pause):
                self.cancel(error)
                pause = _INTERRUPT_INTERVAL_S

        thread = threading.Thread(target=watch, name="query timeout", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    @contextlib.contextmanager
    def interrupting(self, cursor: "duckdb.DuckDBPyConnection") -> Iterator[None]:
        """Interrupt this cursor on `cancel`; other cursors of the database are not affected."""
        with self._lock:
            self.check()
            self._cursor = cursor
        try:
            yield
        finally:
            with self._lock:
                self._cursor = None


class RunningStatements:
    """The statements in flight of a query engine."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: list[Cancellation] = []
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._running)

    @contextlib.contextmanager
    def track(self, cancellation: Cancellation) -> Iterator[None]:
        """Track a statement while it runs; StatementCancelled after `close`."""
        with self._changed:
            if self._is_closed:
                raise StatementCancelled("The server has stopped.")
            self._running.append(cancellation)
        try:
            yield
        finally:
            with self._changed:
                self._running.remove(cancellation)
                self._changed.notify_all()

    def cancel_all(self) -> None:
        """Cancel all statements in flight. Call again until all have ended, see `Cancellation.cancel`."""
        with self._changed:
            running = list(self._running)
        for cancellation in running:
            cancellation.cancel()

    def close(self) -> None:
        """Reject new statements, cancel those in flight, and wait until they have ended."""
        with self._changed:
            self._is_closed = True
        while self._running:
            self.cancel_all()
            with self._changed:
                self._changed.wait_for(lambda: not self._running, _INTERRUPT_INTERVAL_S)
