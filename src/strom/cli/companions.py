"""Programs that `strom start` runs beside the broker, each in a process of its own.

The broker must not be slowed by them, and they must not outlive it, even if it is killed: each companion
holds the reading end of a pipe, and ends when the operating system closes the other one. A companion that
ends by itself is started again, after a pause that grows.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from strom.cli.printing import notice

LIFELINE = "--until-stdin-ends"
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
STEADY_S = 60.0
"""Who has run for so long is taken to be well: the pause begins anew."""
STOP_S = 10.0
_ANY_ADDRESS = {"0.0.0.0", "::", ""}  # noqa: S104 - recognised, not bound


@dataclass(frozen=True)
class Companion:
    """A command of strom that is kept running."""

    name: str
    """What it is called in messages, as in "schema registry"."""
    args: tuple[str, ...]
    """The command with its options; it must know --bootstrap-server and the lifeline's option."""
    host: str
    port: int

    @property
    def url(self) -> str:
        """Where it answers."""
        host = "127.0.0.1" if self.host in _ANY_ADDRESS else self.host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


class Companions:
    """Starts companions, restarts those that end, and takes them along in the end."""

    def __init__(self, companions: Sequence[Companion]) -> None:
        self._companions = companions
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, servers: str) -> None:
        """Start them beside the broker at this address; it is not waited for."""
        for companion in self._companions:
            thread = threading.Thread(
                target=self._keep, args=(companion, servers), name=companion.name, daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """End them."""
        self._stopping.set()
        for process in tuple(self._processes.values()):
            _cut_lifeline(process)
        for thread in self._threads:
            thread.join(STOP_S)
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()

    def _keep(self, companion: Companion, servers: str) -> None:
        pause = FIRST_PAUSE_S
        while not self._stopping.is_set():
            began = time.monotonic()
            process = self._processes[companion.name] = _started(companion, servers)
            if self._stopping.is_set():  # told between the question and the start
                _cut_lifeline(process)
            code = process.wait()
            _cut_lifeline(process)
            if self._stopping.is_set():
                return
            if time.monotonic() - began > STEADY_S:
                pause = FIRST_PAUSE_S
            notice(f"The {companion.name} ended with {code}; it starts again in {pause:.1f} s.")
            self._stopping.wait(pause)
            pause = min(LONGEST_PAUSE_S, pause * 2)


def end_with_parent(stop: Callable[[], None]) -> None:
    """For a companion: call `stop` when the parent is gone, and end in any case soon after."""

    def watch() -> None:
        while sys.stdin.buffer.read(1024):
            pass
        stop()
        time.sleep(STOP_S / 2)
        os._exit(1)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


def _started(companion: Companion, servers: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        # -P: modules are not looked for in the working directory, where connectors may write files.
        [sys.executable, "-P", "-m", "strom", *companion.args, "-b", servers, LIFELINE],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        # Ctrl-C is for the broker, which ends its companions itself.
        start_new_session=True,
    )


def _cut_lifeline(process: "subprocess.Popen[bytes]") -> None:
    if process.stdin is not None:
        process.stdin.close()
