"""A connector whose tasks write down when they begin and end, for a judge to read."""

import os
import time
from dataclasses import dataclass

from strom.connect.api import ConnectorSettings, Kind, SourceConnector, SourceTask, setting


@dataclass(frozen=True, kw_only=True)
class MarkingSettings(ConnectorSettings):
    file: str = setting("file", Kind.STRING, "Where to write.", required=True)
    number: int = setting("number", Kind.INT, "The task's number.", 0)


class MarkingTask(SourceTask[MarkingSettings]):
    def start(self):
        self._mark("begin")

    def poll(self):
        self._mark("alive")
        self.context.stopping.wait(0.02)
        return []

    def stop(self):
        self._mark("end")

    def _mark(self, what):
        line = f"{self.settings.number} {what} {os.getpid()} {time.monotonic()}\n".encode()
        file = os.open(self.settings.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(file, line)
            if what != "alive":
                os.fsync(file)
        finally:
            os.close(file)


class Marking(SourceConnector[MarkingSettings]):
    settings_class = MarkingSettings
    task_class = MarkingTask
    exactly_once = False

    def task_settings(self, max_tasks):
        return [{"number": str(number)} for number in range(max_tasks)]
