"""Kafka's own Connect, from the jars of `tools.kafka`: one distributed worker, peer and judge."""

import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.kafka import LOG4J_TO_STDOUT, QUICK_START_FLAGS, free_port, locate

_START_DEADLINE_S = 90
STRING_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"


class RealConnect:
    """A worker of Kafka Connect with its file connectors, on a free port, until it is stopped."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        config: Mapping[str, str] | None = None,
        heap: str = "256m",
        jvm_flags: Sequence[str] = QUICK_START_FLAGS,
    ) -> None:
        self._servers = bootstrap_servers
        self._config = dict(config or {})
        self._flags = [f"-Xmx{heap}", *jvm_flags]
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._port = free_port()

    @property
    def url(self) -> str:
        """Where REST answers."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """The process to measure."""
        if self._process is None:
            raise RuntimeError("Kafka Connect is not running")
        return self._process.pid

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> Self:
        """Start it, and return once it answers."""
        self._folder = Path(tempfile.mkdtemp(prefix="real-connect-"))
        settings = {
            "bootstrap.servers": self._servers,
            "group.id": "kafka-connect",
            "config.storage.topic": "kafka-connect-configs",
            "offset.storage.topic": "kafka-connect-offsets",
            "status.storage.topic": "kafka-connect-status",
            "config.storage.replication.factor": "1",
            "offset.storage.replication.factor": "1",
            "status.storage.replication.factor": "1",
            "offset.storage.partitions": "1",
            "status.storage.partitions": "1",
            "key.converter": STRING_CONVERTER,
            "value.converter": STRING_CONVERTER,
            "offset.flush.interval.ms": "1000",
            "listeners": self.url,
            "plugin.discovery": "only_scan",
            **self._config,
        }
        properties = self._folder / "worker.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        (self._folder / "log4j2.properties").write_text(LOG4J_TO_STDOUT)
        log4j = f"-Dlog4j2.configurationFile={self._folder / 'log4j2.properties'}"
        command = locate().command(
            "org.apache.kafka.connect.cli.ConnectDistributed",
            str(properties),
            flags=[*self._flags, log4j],
        )
        with (self._folder / "connect.log").open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End it at once. Stopping twice is harmless."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_DEADLINE_S
        while True:
            ended = self._process is None or self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                raise RuntimeError("Kafka Connect did not start:\n" + self._last_words())
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
                    if answer.status == 200:
                        return
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)

    def _last_words(self) -> str:
        if self._folder is None:
            return ""
        text = (self._folder / "connect.log").read_text(errors="replace")
        return "\n".join(text.splitlines()[-15:])
