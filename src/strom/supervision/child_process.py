"""A child process: it reports when it is ready, its output is forwarded, and it ends with its parent.

A child is ready when it writes a line of JSON to its standard output. An open port proves nothing: it may
belong to another program.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import IO, BinaryIO

from strom.model.errors import StromError

STOP_S = 30.0
LAST_LINES = 20
ERROR = "Error: "
"""How a strom command begins the line that reports its failure."""
_JOIN_S = 2.0
"""Pipes close with the child, unless a grandchild has inherited them."""


class StartFailed(StromError, RuntimeError):
    """A child process exited or timed out before it was ready."""


def pass_on(line: str) -> None:
    """Write a line of a child to the standard error of this process."""
    with contextlib.suppress(OSError, ValueError):  # standard error is closed
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


class ChildProcess:
    """A program that this process can start repeatedly, one instance at a time.

    Its standard input is the lifeline (see `lifeline`). It runs in its own session, so that Ctrl-C
    reaches only the parent, which stops its children in the right order. Standard error goes to the file
    `stderr` if there is one. Otherwise `on_line` gets each line of it, and each of standard output but
    the ready line. The error that ends a start is only in StartFailed, so that it is reported once; of
    a traceback, StartFailed repeats the last line.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        stderr: BinaryIO | None = None,
        on_line: Callable[[str], None] = pass_on,
        env: dict[str, str] | None = None,
        stop_s: float = STOP_S,
    ) -> None:
        self.name = name
        self.command = command
        self._stderr = stderr
        self._on_line = on_line
        self._env = env
        self._stop_s = stop_s
        self._last_line = ""
        self._start_error = ""
        self._stderr_start = 0
        self._lock = threading.Lock()
        self._is_closed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._ready: Future[str] = Future()
        self._pumps: list[threading.Thread] = []

    @property
    def pid(self) -> int:
        """The process id; StartFailed if it was not started."""
        return self._started().pid

    @property
    def exit_code(self) -> int | None:
        """The exit code if it ended by itself; None while it runs, before `launch` and after `stop`."""
        process = self._process
        return None if process is None else process.poll()

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self.exit_code is None

    def start(self, timeout_s: float | None = None) -> str:
        """Start it; returns its ready line. StartFailed if there is none within `timeout_s`."""
        self.launch()
        try:
            return self.wait_ready(timeout_s)
        except BaseException:
            self.stop()
            raise

    def launch(self) -> None:
        """Start it, without waiting until it is ready; StartFailed if the operating system cannot."""
        with self._lock:
            if self._is_closed:
                raise StartFailed(f"{self.name} was stopped before it was started.")
            self._last_line = self._start_error = ""
            self._stderr_start = 0 if self._stderr is None else self._stderr.seek(0, os.SEEK_END)
            ready = self._ready = Future()
            try:
                process = subprocess.Popen(
                    self.command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE if self._stderr is None else self._stderr,
                    env=self._env,
                    start_new_session=True,
                )
            except OSError as error:  # short of memory or processes, or no such program
                raise StartFailed(f"{self.name} cannot be started: {error.strerror}.") from error
            self._process = process
            self._pumps = [
                self._pump(process.stdout, lambda stream: self._take_stdout(stream, ready))
            ]
            if process.stderr is not None:
                self._pumps.append(
                    self._pump(process.stderr, lambda stream: self._take_stderr(stream, ready))
                )

    def wait_ready(self, timeout_s: float | None = None) -> str:
        """The ready line; StartFailed if it exits or times out first."""
        try:
            line = self._ready.result(timeout_s)
        except TimeoutError:
            raise StartFailed(
                f"{self.name} was not ready after {timeout_s:g} s. {self.last_lines()}".strip()
            ) from None
        if not line:
            code = self.wait()
            if self._start_error:
                raise StartFailed(f"{self.name} could not be started: {self._start_error}")
            raise StartFailed(
                f"{self.name} exited with code {code} before it was ready: {self.last_lines()}"
            )
        return line

    def last_lines(self) -> str:
        """What it has written to standard error last: one line if `on_line` has had them all."""
        if self._stderr is None:
            return self._last_line
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(self._stderr_start, size - 200 * LAST_LINES))
        lines = self._stderr.read().decode(errors="replace").splitlines()
        return "\n".join(lines[-LAST_LINES:]).strip()

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait until it exits by itself; its exit code. subprocess.TimeoutExpired if it does not."""
        code = self._started().wait(timeout_s)
        self._join()
        return code

    def kill(self) -> None:
        """SIGKILL, which the child cannot handle."""
        self._end(lambda process: process.kill())

    def stop(self) -> int:
        """SIGTERM, then SIGKILL after `stop_s`; its exit code, 0 if it was not running."""
        return self._end(_terminate)

    def close(self) -> None:
        """Stop it for good: a concurrent or later start fails."""
        with self._lock:
            self._is_closed = True
        self.stop()

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            raise StartFailed(f"{self.name} is not running.")
        return self._process

    def _end(self, signal_it: Callable[["subprocess.Popen[bytes]"], None]) -> int:
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return 0
        signal_it(process)
        try:
            process.wait(self._stop_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._join()
        if process.stdin is not None:
            process.stdin.close()
        return process.returncode

    def _pump(
        self, stream: IO[bytes] | None, take: Callable[[Iterator[str]], None]
    ) -> threading.Thread:
        """Drain a pipe in a thread: a full pipe would block the child."""
        assert stream is not None  # noqa: S101 - Popen was called with a PIPE

        def run() -> None:
            with stream:
                take(line.decode(errors="replace").rstrip("\r\n") for line in stream)

        thread = threading.Thread(target=run, name=f"output of {self.name}", daemon=True)
        thread.start()
        return thread

    def _take_stdout(self, lines: Iterator[str], ready: "Future[str]") -> None:
        for line in lines:
            # A plugin that the child imports may print before the child is ready.
            if line.startswith("{") and not ready.done():
                ready.set_result(line)
            else:
                self._on_line(line)
        if not ready.done():
            ready.set_result("")

    def _take_stderr(self, lines: Iterator[str], ready: "Future[str]") -> None:
        for line in lines:
            self._last_line = line or self._last_line
            # The last line of a strom command that fails; its parent reports it.
            if line.startswith(ERROR) and not (ready.done() and ready.result()):
                self._start_error = line.removeprefix(ERROR)
            else:
                self._on_line(line)

    def _join(self) -> None:
        for pump in self._pumps:
            pump.join(_JOIN_S)


def _terminate(process: "subprocess.Popen[bytes]") -> None:
    if sys.platform == "win32":  # terminate() kills there, so close the lifeline instead
        if process.stdin is not None:
            process.stdin.close()
    else:
        process.terminate()
        process.send_signal(signal.SIGCONT)  # one that SIGSTOP has stopped handles no other signal
