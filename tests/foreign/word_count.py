"""Kafka Streams' own word count example, with exactly_once_v2, as a process that can be killed."""

import shutil
import struct
import subprocess
import time
from collections import defaultdict
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tools import kafka

LINES = "streams-plaintext-input"
COUNTS = "streams-wordcount-output"
PARTITIONS = 2
MAIN_CLASS = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
SETTINGS = {
    "application.id": "wordcount",
    "processing.guarantee": "exactly_once_v2",
    "commit.interval.ms": "100",
    "num.stream.threads": "1",
    "session.timeout.ms": "6000",  # a killed one is missed sooner
    "heartbeat.interval.ms": "1000",
    "metadata.max.age.ms": "5000",
}


def create_topics(bootstrap_servers: str) -> None:
    """The two topics that the example expects to be there; its inner ones it creates by itself."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    topics = [NewTopic(name, PARTITIONS) for name in (LINES, COUNTS)]
    for created in admin.create_topics(topics).values():
        created.result(30)


class WordCount:
    """The example, running or not, with its state in a folder."""

    def __init__(self, bootstrap_servers: str, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        settings = {
            **SETTINGS,
            "bootstrap.servers": bootstrap_servers,
            "state.dir": str(self._state),
        }
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        (folder / "streams.properties").write_text(text)
        (folder / "log4j2.properties").write_text(kafka.LOG4J_TO_STDOUT)

    @property
    def _state(self) -> Path:
        return self._folder / "state"

    @property
    def _log(self) -> Path:
        return self._folder / "streams.log"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start it; it takes some seconds until it counts."""
        log4j = f"-Dlog4j2.configurationFile={self._folder / 'log4j2.properties'}"
        command = kafka.locate().command(
            MAIN_CLASS,
            str(self._folder / "streams.properties"),
            flags=("-Xmx128m", *kafka.QUICK_START_FLAGS, log4j),
        )
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def forget_state(self) -> None:
        """As on another machine: everything local is gone, even the name of its transactions."""
        shutil.rmtree(self._state, ignore_errors=True)

    def words(self) -> str:
        """What it has logged last."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-40:])


class Counts:
    """Everything that a reader of committed records has seen, in order, by word."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.by_word: dict[str, list[int]] = defaultdict(list)
        self.total = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "reader",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        self._consumer.subscribe([COUNTS])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def read_until(self, total: int, seconds: float) -> bool:
        """Read on until there are that many; False if they do not come in time."""
        deadline = time.monotonic() + seconds
        while self.total < total and time.monotonic() < deadline:
            self.read(1)
        return self.total >= total

    def read(self, seconds: float) -> None:
        """Read what comes within this time."""
        for message in self._consumer.consume(500, seconds):
            error = message.error()
            if error is None:
                (count,) = struct.unpack(">q", message.value())
                self.by_word[message.key().decode()].append(count)
                self.total += 1
            elif error.code() != KafkaError._ALL_BROKERS_DOWN:
                raise KafkaException(error)
