"""A file sink that kills its worker once, between a dead letter and the position behind it."""

import os
import signal
from pathlib import Path

from strom.connect.connectors.files.sink import FileSinkTask, FileStreamSink


class DyingFileSinkTask(FileSinkTask):
    def flush(self):
        died = Path(f"{self.settings.file}.died")
        if not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        super().flush()


class DyingFileSink(FileStreamSink):
    task_class = DyingFileSinkTask
