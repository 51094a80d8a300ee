"""What may happen to a broker while clients work with it."""

import os
import signal
import time
from random import Random

from strom.testing import BrokerProcess


class Faults:
    """Kills, pauses, and times without either."""

    def __init__(self, server: BrokerProcess, chance: Random) -> None:
        self.happened: list[str] = []
        self._server = server
        self._chance = Random(chance.random())

    def kill(self) -> None:
        """End the broker as a power switch would, and start it again."""
        self.happened.append("kill")
        self._server.kill()
        self._server.start()

    def pause(self) -> None:
        """Let the broker stand still for a moment, with all its connections open."""
        self.happened.append("pause")
        os.kill(self._server.pid, signal.SIGSTOP)
        try:
            time.sleep(self._chance.uniform(0.05, 0.5))
        finally:
            os.kill(self._server.pid, signal.SIGCONT)

    def go_on(self, seconds: float) -> None:
        """Let things happen for a while, with quiet times between them."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, self._chance.uniform(0.1, 1.0)))
            self._chance.choice([self.kill, self.kill, self.pause])()
