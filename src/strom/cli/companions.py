"""Programs that `strom start` and `strom run` keep running beside the broker, in processes of their own.

The broker must not be slowed by them, and they must not outlive it.
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
    """A command of strom that is kept running."""

    name: str
    """What it is called in messages, as in "schema registry"."""
    args: tuple[str, ...]
    """The command with its options; it must have --bootstrap-server, --json and the lifeline's option."""
    host: str
    port: int

    @property
    def url(self) -> str:
        """The address for clients."""
        host = "127.0.0.1" if self.host in _ANY_ADDRESS else self.host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def child(self, servers: str) -> ChildProcess:
        """Its process, not started, as a client of the broker at this address."""
        # -P: modules are not looked for in the working directory, where connectors may write files.
        command = (sys.executable, "-P", "-m", "strom", *self.args)
        command += ("-b", servers, "--json", LIFELINE)
        return ChildProcess(f"The {self.name}", command, stop_s=STOP_S)


class Companions:
    """Starts companions, restarts those that end, and stops them in the end."""

    def __init__(self, companions: Sequence[Companion]) -> None:
        self._companions = companions
        self._supervisors: list[Supervisor] = []

    def start(self, servers: str) -> None:
        """Start them beside the broker at this address, without waiting."""
        for companion in self._companions:
            self._supervisors.append(Supervisor(companion.child(servers), notice))
            self._supervisors[-1].start()

    def wait_ready(self, timeout_s: float) -> None:
        """Return when all of them are ready; StartFailed if the first start of one failed."""
        for supervisor in self._supervisors:
            supervisor.wait_ready(timeout_s)

    def stop(self) -> None:
        """Stop them."""
        for supervisor in self._supervisors:
            supervisor.stop()
