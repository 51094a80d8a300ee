"""The last log lines of each connector, for `strom connect logs`."""

import logging
import threading
from collections import deque
from collections.abc import Callable


class ConnectorLogs(logging.Handler):
    """Keeps lines that carry a connector's name; secrets are taken out on the way in."""

    def __init__(self, lines: int, hide: Callable[[str], str]) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(threadName)s %(message)s"))
        self._lines = lines
        self._hide = hide
        self._kept: dict[str, deque[str]] = {}
        self._guard = threading.Lock()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        connector = getattr(record, "connector", None)
        if connector is None or not self._lines:
            return
        line = self._hide(self.format(record))
        with self._guard:
            self._kept.setdefault(connector, deque(maxlen=self._lines)).append(line)

    def of(self, connector: str) -> list[str]:
        """The lines of a connector, oldest first."""
        with self._guard:
            return list(self._kept.get(connector, ()))
