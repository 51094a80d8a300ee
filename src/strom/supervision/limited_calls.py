"""Calls functions in child processes, which end when a call exceeds its limits of CPU time or memory.

This is for libraries in native code that can take unbounded time: they hold the lock of the interpreter,
cannot be interrupted, and end their process when memory or the stack is exhausted. Arguments and results
are JSON.
"""

import atexit
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from strom.model.errors import StromError

_CPU_TIME_SIGNALS = {"SIGPROF", "SIGXCPU"}
_CRASH_SIGNALS = {"SIGABRT", "SIGSEGV", "SIGBUS", "SIGILL", "SIGTRAP"}
"""How native code ends its process when memory or the stack is exhausted."""

_log = logging.getLogger(__name__)


class LimitExceeded(StromError):
    """A call would exceed its limits again if it were repeated."""


class CallFailed(StromError):
    """A call failed for a reason outside of it, such as a shortage of memory: it may be repeated."""


@dataclass(frozen=True)
class CallLimits:
    """What one call may use."""

    cpu_s: float = 5.0
    """CPU time, so that a busy machine does not change what is refused."""
    wall_s: float = 120.0
    memory_bytes: int = 1024**3
    """Of address space, with the interpreter and the libraries."""


class LimitedCalls:
    """Calls functions of a module that runs `serve_calls`, in a few child processes. Thread-safe.

    Children are started when they are needed, and end with this process.
    """

    def __init__(
        self,
        module: str,
        limits: CallLimits = CallLimits(),  # noqa: B008 - it is frozen
        *,
        processes: int = 4,
    ) -> None:
        self._module = module
        self._limits = limits
        self._free = threading.BoundedSemaphore(processes)
        self._idle: list[subprocess.Popen[bytes]] = []
        self._busy: set[subprocess.Popen[bytes]] = set()
        self._is_closed = False
        atexit.register(self.close)

    def call(self, function: str, *arguments: Any) -> Any:
        """The result of a function; LimitExceeded or CallFailed without one."""
        limits = self._limits
        request = json.dumps([function, arguments, limits.cpu_s, limits.memory_bytes]).encode()
        with self._free:
            child = self._take()
            self._busy.add(child)  # before the check, so that `close` ends it or it ends here
            timer = threading.Timer(limits.wall_s, child.kill)
            timer.start()
            try:
                if self._is_closed:
                    raise CallFailed("The child processes are closed.")
                response = self._exchange(child, request)
                if "exceeded" in response:
                    raise LimitExceeded(response["exceeded"])
                if "failed" in response:
                    raise RuntimeError(response["failed"])
            except BaseException:
                child.kill()
                _end(child)
                self._busy.discard(child)
                raise
            finally:
                timer.cancel()
            self._idle.append(child)
            self._busy.discard(child)
        return response["result"]

    def close(self) -> None:
        """End all children; calls in flight fail."""
        self._is_closed = True
        for child in list(self._busy):
            child.kill()
        while self._idle:
            _end(self._idle.pop())

    def _take(self) -> "subprocess.Popen[bytes]":
        with contextlib.suppress(IndexError):
            while True:
                child = self._idle.pop()
                if child.poll() is None:
                    return child
                _end(child)
        try:
            return subprocess.Popen(
                # -P: modules are not imported from the working directory.
                (sys.executable, "-P", "-m", self._module),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C reaches only the parent
            )
        except OSError as error:
            raise self._failed(f"No child process can be started: {error.strerror}.") from error

    def _exchange(self, child: "subprocess.Popen[bytes]", request: bytes) -> dict[str, Any]:
        assert child.stdin is not None and child.stdout is not None  # noqa: S101, PT018 - pipes
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(request + b"\n")
            child.stdin.flush()
        line = child.stdout.readline()
        if line.endswith(b"\n"):
            response: dict[str, Any] = json.loads(line)
            return response
        code = child.wait()
        if code >= 0:
            raise self._failed(f"A child process ended with exit code {code}.")
        name = _signal_name(-code)
        if name in _CPU_TIME_SIGNALS:
            return {"exceeded": "It takes too much CPU time."}
        if name in _CRASH_SIGNALS:
            return {"exceeded": "It takes too much memory."}
        raise self._failed(f"A child process was ended by {name}.")

    def _failed(self, reason: str) -> CallFailed:
        if not self._is_closed:
            _log.warning("%s Its module is %s.", reason, self._module)
        return CallFailed(reason)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _end(child: "subprocess.Popen[bytes]") -> None:
    """Close its pipes, at whose end it exits by itself."""
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    child.wait()


def serve_calls(functions: Mapping[str, Callable[..., Any]]) -> None:
    """In a child: serve calls until the parent ends."""
    # What a library prints must not get between the responses.
    with os.fdopen(os.dup(1), "wb") as responses, open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 1)
        for line in sys.stdin.buffer:
            name, arguments, cpu_s, memory_bytes = json.loads(line)
            with _Limited(cpu_s, memory_bytes):
                response = _respond(functions[name], arguments)
            responses.write(json.dumps(response).encode() + b"\n")
            responses.flush()


def _respond(function: Callable[..., Any], arguments: list[Any]) -> dict[str, Any]:
    try:
        return {"result": function(*arguments)}
    except MemoryError:
        return {"exceeded": "It takes too much memory."}
    except Exception:  # noqa: BLE001 - raised by the parent
        return {"failed": traceback.format_exc()}


class _Limited:
    """The limits of the running call; Windows has neither, only the parent's limit of wall time."""

    def __init__(self, cpu_s: float, memory_bytes: int) -> None:
        self._cpu_s = cpu_s
        self._memory_bytes = memory_bytes

    def __enter__(self) -> Self:
        if sys.platform != "win32":
            import resource

            # Only a privileged process may raise a hard limit, as of `ulimit -v`.
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]
            unlimited = hard == resource.RLIM_INFINITY
            soft = self._memory_bytes if unlimited else min(self._memory_bytes, hard)
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            # Its signal ends the process inside of native code, too.
            signal.setitimer(signal.ITIMER_PROF, self._cpu_s)
        return self

    def __exit__(self, *_: object) -> None:
        if sys.platform != "win32":
            signal.setitimer(signal.ITIMER_PROF, 0)
