"""The broker of a project's data folder, kept running for as long as a command needs it.

Several commands of a project use one broker, and the first one runs it. When that command ends before the
others, or the broker's process dies, one of those that are left starts it again.
"""

import logging
import socket
import threading
from pathlib import Path

from strom.cli.companions import LIFELINE
from strom.testing import BrokerProcess

log = logging.getLogger(__name__)

WATCH_S = 1.0


class EmbeddedBroker:
    """Runs the broker, or uses the one that another command of the project runs, until `stop`."""

    def __init__(self, data: Path, port: int) -> None:
        data.mkdir(parents=True, exist_ok=True)
        self._port = port
        self._process = BrokerProcess(data=str(data), port=port, options=(LIFELINE,))
        self._is_own = False
        self._stopping = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="broker-watch", daemon=True)

    def start(self) -> None:
        """Start the broker; RuntimeError if that fails."""
        self._process.start()
        self._is_own = True

    def keep_running(self) -> None:
        """From now on, start it whenever nobody runs it."""
        self._watcher.start()

    def stop(self) -> None:
        """Stop the broker, if this process runs it."""
        self._stopping.set()
        if self._watcher.is_alive():
            self._watcher.join()
        self._process.stop()

    def _watch(self) -> None:
        is_reported = False
        while not self._stopping.wait(WATCH_S):
            if self._runs():
                is_reported = False
                continue
            try:
                self.start()
                log.warning("the broker at port %d had ended, and was started again", self._port)
            except RuntimeError as error:  # as when another command has just started it
                if not is_reported and not listens(self._port):
                    log.warning("the broker at port %d has ended: %s", self._port, error)
                    is_reported = True

    def _runs(self) -> bool:
        if self._is_own and self._process.exit_code is None:
            return True
        self._process.terminate()  # closes the pipes to one that has ended
        self._is_own = False
        return listens(self._port)


def listens(port: int) -> bool:
    """Whether a program accepts connections at a port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
