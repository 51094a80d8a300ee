"""The real Apache Kafka, from jars, as a single node: peer in benchmarks and judge in tests.

    python -m tools.kafka fetch    get the jars into .kafka/libs, once
    python -m tools.kafka start    run a throw-away node until Ctrl-C

`$STROM_KAFKA_HOME` names another folder than `.kafka`. Where Kafka cannot be fetched,
the reason is kept in `.kafka/unavailable`, and the tests marked `oracle` skip with it.
"""

import argparse
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tools.jars import Jars, find_java
from tools.jars import UnavailableError as UnavailableError

VERSION = "4.3.1"
QUICK_START_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""For tests: ready sooner and smaller, but slower under load. Benchmarks pass their own."""

JARS = Jars("kafka", f"Apache Kafka {VERSION}", "make kafka")
_START_DEADLINE_S = 60
_CLUSTER_ID = "c3Ryb20tcmVhbC1rYWZrYQ"
LOG4J_TO_STDOUT = """\
rootLogger.level = info
rootLogger.appenderRef.stdout.ref = stdout
appender.stdout.type = Console
appender.stdout.name = stdout
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = %d %p %c{1}: %m%n
"""


class Installation(NamedTuple):
    """What it takes to start anything from Kafka's jars."""

    java: str
    classpath: str

    def command(self, main_class: str, *arguments: str, flags: Sequence[str] = ()) -> list[str]:
        """The command line that runs `main_class`."""
        return [self.java, *flags, "-cp", self.classpath, main_class, *arguments]


def home() -> Path:
    """The folder that holds the jars."""
    return Path(
        os.environ.get("STROM_KAFKA_HOME") or Path(__file__).resolve().parent.parent / ".kafka"
    )


def locate() -> Installation:
    """Find Java and the jars, or say why not. Only jars with the right checksum are run."""
    jars = home() / "libs"
    if problem := JARS.problem(jars):
        reason = _unavailable_note()
        raise UnavailableError(
            reason.read_text().strip() if reason.exists() else f"{problem}; run `make kafka`"
        )
    return Installation(find_java("Apache Kafka"), JARS.classpath(jars))


def fetch() -> None:
    """Put the jars into the folder unless they are there already, or raise UnavailableError."""
    JARS.fetch(home() / "libs")


def run_tool(
    class_name: str,
    *arguments: str,
    stdin: str = "",
    timeout_s: float = 60,
    flags: Sequence[str] = ("-Xmx128m", *QUICK_START_FLAGS),
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's own tools, such as `org.apache.kafka.tools.TopicCommand`."""
    command = locate().command(class_name, *arguments, flags=flags)
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout_s)


class RealKafka:
    """One node of Apache Kafka on free loopback ports, with a data folder that goes when it stops.

    Use it in a `with` statement, or call `start` and `stop`. `config` overrides broker settings.
    """

    def __init__(
        self,
        *,
        config: Mapping[str, str] | None = None,
        heap: str = "256m",
        jvm_flags: Sequence[str] = QUICK_START_FLAGS,
        port: int = 0,
    ) -> None:
        self._config = dict(config or {})
        self._flags = [f"-Xmx{heap}", *jvm_flags]
        self._port = port
        self._folder: Path | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self.startup_seconds = 0.0
        """From the start of the JVM to the broker's own "started"; formatting is not counted."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, `127.0.0.1:PORT`."""
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """The process to measure."""
        if self._server is None:
            raise RuntimeError("Kafka is not running")
        return self._server.pid

    @property
    def log_file(self) -> Path:
        """Where the broker's log goes; removed with the data folder."""
        if self._folder is None:
            raise RuntimeError("Kafka is not running")
        return self._folder / "kafka.log"

    def start(self) -> None:
        """Format a fresh data folder, start the broker and return once it answers."""
        installation = locate()
        self._folder = Path(tempfile.mkdtemp(prefix="real-kafka-"))
        try:
            properties = self._write_properties(self._folder)
            self._format(installation, properties)
            self._launch(installation, properties)
            self._wait_until_started()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the broker at once and remove its data. Stopping twice is harmless."""
        for process in (self._watcher, self._server):
            if process is not None:
                process.kill()
                process.communicate()
        self._watcher = self._server = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _write_properties(self, folder: Path) -> Path:
        self._port = self._port or free_port()
        controller = f"127.0.0.1:{free_port()}"
        node_id = self._config.get("node.id", "1")
        settings = {
            "process.roles": "broker,controller",
            "node.id": node_id,
            "controller.quorum.voters": f"{node_id}@{controller}",
            "listeners": f"PLAINTEXT://{self.bootstrap_servers},CONTROLLER://{controller}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(folder / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.cleaner.dedupe.buffer.size": "4194304",
            **self._config,
        }
        (folder / "log4j2.properties").write_text(LOG4J_TO_STDOUT)
        properties = folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return properties

    def _format(self, installation: Installation, properties: Path) -> None:
        command = installation.command(
            "kafka.tools.StorageTool",
            *("format", "-t", _CLUSTER_ID, "-c", str(properties)),
            flags=("-Xmx128m", *QUICK_START_FLAGS),
        )
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"Kafka could not format its folder: {done.stdout}{done.stderr}")

    def _launch(self, installation: Installation, properties: Path) -> None:
        log4j = f"-Dlog4j2.configurationFile={properties.with_name('log4j2.properties')}"
        command = installation.command("kafka.Kafka", str(properties), flags=[*self._flags, log4j])
        with self.log_file.open("wb") as log:
            self._server = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        # Should this process be killed, the watcher's input closes, and it takes the broker along.
        script = 'read -r _; kill -9 "$0"; sleep 1; rm -rf "$1"'
        self._watcher = subprocess.Popen(
            ["sh", "-c", script, str(self._server.pid), str(self._folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def _wait_until_started(self) -> None:
        began = time.monotonic()
        while b"Kafka Server started" not in self.log_file.read_bytes():
            ended = self._server is None or self._server.poll() is not None
            if ended or time.monotonic() - began > _START_DEADLINE_S:
                last_lines = self.log_file.read_text(errors="replace").splitlines()[-15:]
                raise RuntimeError("Kafka did not start:\n" + "\n".join(last_lines))
            time.sleep(0.02)
        self.startup_seconds = time.monotonic() - began


def free_port() -> int:
    """A port of this machine that no process listens on at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _unavailable_note() -> Path:
    return home() / "unavailable"


def _fetch_command() -> int:
    try:
        fetch()
        locate()
    except UnavailableError as reason:
        _unavailable_note().parent.mkdir(parents=True, exist_ok=True)
        _unavailable_note().write_text(f"{reason}\n")
        print(f"No real Kafka here, tests that need it will be skipped: {reason}")
        return 0
    _unavailable_note().unlink(missing_ok=True)
    print(f"Apache Kafka {VERSION} is in {home()}")
    return 0


def _start_command(port: int, heap: str, settings: list[str]) -> int:
    config = dict(setting.split("=", 1) for setting in settings)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with RealKafka(port=port, heap=heap, config=config) as kafka:
        print(f"Apache Kafka {VERSION} on {kafka.bootstrap_servers} ", end="")
        print(f"(pid {kafka.pid}, ready in {kafka.startup_seconds:.1f} s); Ctrl-C ends it")
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                time.sleep(3600)
    return 0


def main() -> int:
    """Run the command named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.kafka", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("fetch", help="get the jars into .kafka/libs, once")
    start = commands.add_parser("start", help="run a throw-away node until Ctrl-C")
    start.add_argument("--port", type=int, default=9092)
    start.add_argument("--heap", default="256m")
    start.add_argument("--set", dest="settings", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    if options.command == "fetch":
        return _fetch_command()
    return _start_command(options.port, options.heap, options.settings)


if __name__ == "__main__":
    sys.exit(main())
