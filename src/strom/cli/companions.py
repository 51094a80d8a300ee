"""Child processes that `strom start` and `strom run` keep running beside the broker.

Separate processes, so that they do not slow the broker down; they never outlive it.
"""

import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from strom.cli.options import environment_of_child
from strom.cli.printing import notice
from strom.supervision.child_process import ChildProcess
from strom.supervision.lifeline import LIFELINE
from strom.supervision.supervisor import Supervisor

STOP_S = 10.0
_ANY_ADDRESS = {"0.0.0.0", "::", ""}  # noqa: S104 - recognised, not bound


@dataclass(frozen=True)
class Companion:
    """A strom command to run as a child process."""

    name: str
    """Its name in messages, as in "schema registry"."""
    args: tuple[str, ...]
    """The command with its options; it must support --bootstrap-server, --json and the lifeline."""
    host: str
    port: int
    options: Mapping[str, str] = field(default_factory=dict)
    """What to do about a setting in its errors, in terms of the command that the user typed."""

    @property
    def url(self) -> str:
        """Its URL, with loopback instead of a wildcard address."""
        host = "127.0.0.1" if self.host in _ANY_ADDRESS else self.host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def child(self, servers: str) -> ChildProcess:
        """Its process, not started yet, as a client of the broker at this address."""
        # -P: do not import from the working directory, where connectors may write files.
        command = (sys.executable, "-P", "-m", "strom", *self.args)
        command += ("-b", servers, "--json", LIFELINE)
        env = environment_of_child(self.options)
        return ChildProcess(f"The {self.name}", command, env=env, stop_s=STOP_S)


class Companions:
    """Starts companions, restarts those that exit, and stops them; see Supervisor for `must_start`."""

    def __init__(self, companions: Sequence[Companion], *, must_start: bool = False) -> None:
        self._companions = companions
        self._must_start = must_start
        self._supervisors: list[Supervisor] = []

    def start(self, servers: str) -> None:
        """Start them as clients of the broker at this address, without waiting."""
        for companion in self._companions:
            child = companion.child(servers)
            self._supervisors.append(Supervisor(child, notice, must_start=self._must_start))
            self._supervisors[-1].start()

    def wait_ready(self, timeout_s: float) -> None:
        """Return when all of them are ready; StartFailed if the first start of one failed."""
        for supervisor in self._supervisors:
            supervisor.wait_ready(timeout_s)

    def stop(self) -> None:
        """Stop all of them at the same time: each may take its STOP_S."""
        stopping = [threading.Thread(target=one.stop) for one in self._supervisors]
        for thread in stopping:
            thread.start()
        for thread in stopping:
            thread.join()
