"""Child processes that `strom start` and `strom run` keep running beside the broker.

Separate processes, so that they do not slow the broker down; they never outlive it.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

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
        return ChildProcess(f"The {self.name}", command, stop_s=STOP_S)


class Companions:
    """Starts companions, restarts those that exit, and stops them."""

    def __init__(self, companions: Sequence[Companion]) -> None:
        self._companions = companions
        self._supervisors: list[Supervisor] = []

    def start(self, servers: str) -> None:
        """Start them as clients of the broker at this address, without waiting."""
        for companion in self._companions:
            self._supervisors.append(Supervisor(companion.child(servers), notice))
            self._supervisors[-1].start()

    def wait_ready(self, timeout_s: float) -> None:
        """Return when all of them are ready; StartFailed if the first start of one failed."""
        for supervisor in self._supervisors:
            supervisor.wait_ready(timeout_s)

    def stop(self) -> None:
        for supervisor in self._supervisors:
            supervisor.stop()
