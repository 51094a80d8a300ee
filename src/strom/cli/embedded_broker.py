"""The broker of a project's data folder, kept running as long as a command needs it.

Several commands of a project share one broker, and the first one runs it. When that command ends before
the others, or the broker's process dies, one of the remaining commands restarts it. Whether it runs is
known from the lock of its data folder: an open port may belong to another program.
"""

import logging
import threading
from pathlib import Path

from strom.cli.options import environment_of_child
from strom.storage.directory_files import LOCK_FILE
from strom.supervision.broker_process import BrokerProcess
from strom.supervision.child_process import StartFailed
from strom.supervision.file_lock import is_held

log = logging.getLogger(__name__)

WATCH_S = 1.0


class EmbeddedBroker:
    """Runs the broker, or uses the one that another command of the project runs, until `stop`."""

    def __init__(self, data: Path, port: int) -> None:
        data.mkdir(parents=True, exist_ok=True)
        self._lock = data / LOCK_FILE
        self._port = port
        env = environment_of_child({"port": "Choose another `port` under [kafka] in strom.toml."})
        self._process = BrokerProcess(data=str(data), port=port, passes_on=True, env=env)
        self._stopping = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="broker-watch", daemon=True)

    @property
    def is_running(self) -> bool:
        """Whether this command or another one runs the broker of the data folder."""
        return self._process.is_running or is_held(self._lock)

    def start(self) -> None:
        """Start the broker; StartFailed if that fails, as when the port is in use."""
        self._process.start()

    def keep_running(self) -> None:
        """From now on, restart it whenever no command runs it."""
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
            if self.is_running:
                is_reported = False
                continue
            self._process.terminate()  # closes the pipes of a process that has exited
            try:
                self.start()
                log.warning("restarted the broker on port %d, which had exited", self._port)
            except StartFailed as error:
                # Another command may have restarted it first.
                if not is_reported and not self.is_running:
                    log.warning("the broker on port %d cannot be restarted: %s", self._port, error)
                    is_reported = True
