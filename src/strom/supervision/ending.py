"""A program that ends in time after SIGTERM or SIGINT, even if it waits for something else.

Python runs a signal's handler in the main thread, between two of its own instructions: never, if that
thread waits in a library. So a thread of its own gets each signal from a pipe, which the interpreter
writes at once, and ends the process when a deadline has passed.
"""

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

ENDED = 1
"""The exit code of a process that did not end by itself in time."""
REPORT_S = 1.0
"""How long the message may take: it is possible that nothing reads the standard error."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Terminated(KeyboardInterrupt):
    """SIGTERM was received: like Ctrl-C, it unwinds the main thread."""


class EndingDeadline:
    """How long the process may take to end after the first signal; it may be changed until then."""

    def __init__(self, seconds: float, message: str) -> None:
        self.seconds = seconds
        self.is_signalled = False
        self._message = message
        self._stderr: int | None = None
        with contextlib.suppress(OSError):  # it may be closed
            self._stderr = os.dup(2)  # descriptor 2 is redirected while Spark is stopped
        self._is_over = threading.Event()

    def watch(self, pipe: socket.socket) -> None:
        """Wait for a signal and then for the deadline; end the process unless it was called off."""
        with pipe:
            while data := pipe.recv(1):
                if data[0] in _SIGNALS:
                    break
            else:
                return
            self.is_signalled = True
            self._end_after(self.seconds)

    def end_within(self, seconds: float) -> None:
        """End the process after so many seconds from now."""
        threading.Thread(target=self._end_after, args=(seconds,), daemon=True).start()

    def _end_after(self, seconds: float) -> None:
        if self._is_over.wait(seconds):
            return
        try:
            # In a thread, because a full pipe or a terminal that was stopped by Ctrl-S blocks for ever.
            reporting = threading.Thread(target=self._report, daemon=True)
            reporting.start()
            reporting.join(REPORT_S)
            kill_children()
        finally:
            os._exit(ENDED)

    def _report(self) -> None:
        if self._stderr is not None:
            with contextlib.suppress(OSError):
                os.write(self._stderr, f"Error: {self._message}\n".encode())

    def call_off(self) -> None:
        """Everything has ended in time."""
        self._is_over.set()
        if self._stderr is not None:
            os.close(self._stderr)


@contextlib.contextmanager
def ending_in_time(seconds: float, message: str) -> Iterator[EndingDeadline]:
    """Raise KeyboardInterrupt for SIGINT and Terminated for SIGTERM, and end the process after `seconds`.

    To be used in the main thread, around all that has to be stopped. Children that are left then are
    killed, such as one that had not started completely.
    """
    deadline = EndingDeadline(seconds, message)
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    threading.Thread(target=deadline.watch, args=(receiver,), name="ending", daemon=True).start()
    previous = {number: signal.getsignal(number) for number in _SIGNALS}
    previous_descriptor = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    try:
        if previous[signal.SIGINT] is not signal.SIG_IGN:  # as of a job in a shell's background
            signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, _raise_terminated)
        yield deadline
    except BaseException as error:
        interrupt = _interrupt_behind(error)
        if interrupt is None:
            raise
        deadline.is_signalled = True  # the watching thread may not have noticed yet
        raise interrupt from None
    finally:
        deadline.call_off()
        signal.set_wakeup_fd(previous_descriptor)
        sender.close()
        for number, handler in previous.items():
            signal.signal(number, handler)
        if deadline.is_signalled:
            kill_children()


def _interrupt_behind(error: BaseException | None) -> KeyboardInterrupt | None:
    """The interrupt that led to an error: unwinding may fail, as calls to Spark do on the way out."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error


def _raise_terminated(*_: object) -> None:
    raise Terminated


def kill_children() -> None:
    """SIGKILL for all child processes, also those that are stopped; Linux only.

    Elsewhere they end when their standard input, which this process holds, is closed.
    """
    if sys.platform != "linux":
        return
    for task in Path("/proc/self/task").iterdir():
        pids: list[str] = []
        with contextlib.suppress(OSError):  # the thread has ended meanwhile
            pids = (task / "children").read_text().split()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
