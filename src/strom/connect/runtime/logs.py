"""The last log lines of each connector, for `strom connect logs`."""

import logging
import threading
from collections import deque
from collections.abc import Callable

from strom.supervision.log_lines import LINE_FORMAT_WITH_THREAD, LogFormatter


class ConnectorLogs(logging.Handler):
    """Keeps the lines of each connector, with secrets hidden."""

    def __init__(self, lines: int, hide: Callable[[str], str]) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(LogFormatter(LINE_FORMAT_WITH_THREAD))
        self._lines = lines
        self._hide = hide
        self._kept: dict[str, deque[str]] = {}
        self._lock = threading.Lock()

    def emit(self, record: logging.LogRecord) -> None:
        connector = getattr(record, "connector", None)
        if connector is None or not self._lines:
            return
        line = self._hide(self.format(record))
        with self._lock:
            self._kept.setdefault(connector, deque(maxlen=self._lines)).append(line)

    def of(self, connector: str) -> list[str]:
        """The lines of a connector, oldest first."""
        with self._lock:
            return list(self._kept.get(connector, ()))
