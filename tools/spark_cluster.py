"""Spark's own master and workers from pyspark's wheel, for tests: on loopback, on free ports."""

import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from strom.pipelines.spark.jars import cache_folder
from strom.pipelines.spark.java import java_home

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that starts fast and lives shortly."""
_DEADLINE_S = 120


class SparkCluster:
    """A master, and workers that are started one by one; their logs are in `folder`."""

    def __init__(self, folder: Path) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        self._launcher = str(home / "bin" / "spark-class")
        self._folder = folder
        self._started = ExitStack()
        self._environment = os.environ | {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "JAVA_HOME": str(java_home(cache_folder())),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK,
            "SPARK_WORKER_DIR": str(folder / "work"),
        }
        self.address = ""

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True)
        with self._started:  # ends the master if it does not get ready
            # The master chooses its port: one that was free a moment ago may be taken, and Spark then
            # silently takes the next one.
            options = ["master.Master", "--host", "127.0.0.1", "--port", "0"]
            log = self._folder / "master.log"
            self.address = _announced(log, self._start(options, log))
            self._started = self._started.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._started.close()

    def start_worker(
        self, *, cores: int = 1, before: Sequence[str] = ()
    ) -> "subprocess.Popen[bytes]":
        """A worker; `before` is a command that runs it, such as `unshare`."""
        options = ["worker.Worker", self.address, "--host", "127.0.0.1"]
        options += ["--cores", str(cores), "--memory", "1g"]
        return self._start(options, self._folder / "worker.log", before)

    def logs(self) -> str:
        """What the master and the workers have logged."""
        found = sorted(self._folder.glob("*.log"))
        return "\n".join(f"{path.name}:\n{path.read_text(errors='replace')}" for path in found)

    def _start(
        self, command: Sequence[str], log: Path, before: Sequence[str] = ()
    ) -> "subprocess.Popen[bytes]":
        name, *options = command
        arguments = [f"org.apache.spark.deploy.{name}", *options, "--webui-port", "0"]
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*before, self._launcher, *arguments],
                env=self._environment,
                stdout=output,
                stderr=output,
            )
        self._started.callback(_stop, process)
        return process


def _announced(log: Path, master: "subprocess.Popen[bytes]") -> str:
    deadline = time.monotonic() + _DEADLINE_S
    while True:
        text = log.read_text(errors="replace")
        found = [word for word in text.split() if word.startswith("spark://")]
        if found:
            return found[0].rstrip(".,")
        if master.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"Spark's master did not start:\n{text}")
        time.sleep(0.05)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    process.wait(_DEADLINE_S)
