"""The real RabbitMQ as a throw-away node: peer in benchmarks and judge in tests.

    python -m tools.rabbitmq install    get Debian's package, once, if this is allowed here
    python -m tools.rabbitmq start      run a throw-away node until Ctrl-C

Tests that need it skip with the reason where it cannot be had.
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
from pathlib import Path
from types import TracebackType
from typing import Self

from tools import debian

PROGRAMS = Path("/usr/lib/rabbitmq/bin")
_USER = "rabbitmq"
_START_DEADLINE_S = 60
_WATCHER = """
read -r _
kill -9 "-$0"
for _ in 1 2 3 4 5; do sleep 1; epmd -kill | grep -q "not allowed" || break; done
rm -rf "$1"
"""
"""Ends a node and its port mapper, which refuses to end until it has noticed that the node is gone."""


class UnavailableError(Exception):
    """This machine cannot run the real RabbitMQ; the text says why and what would help."""


def locate() -> Path:
    """The program that starts a server, or why there is none."""
    program = PROGRAMS / "rabbitmq-server"
    if not program.exists():
        raise UnavailableError("RabbitMQ is not installed; run `make rabbitmq` (Debian, as root)")
    if debian.is_root() and shutil.which("runuser") is None:
        raise UnavailableError("RabbitMQ does not run as root, and there is no `runuser`")
    return program


def install() -> None:
    """Install Debian's package unless it is there already, or raise UnavailableError."""
    if not (PROGRAMS / "rabbitmq-server").exists():
        debian.install("RabbitMQ", "rabbitmq-server")
    locate()


class RealRabbitMQ:
    """One node on free loopback ports, with a data folder that goes when it stops."""

    def __init__(self, *, port: int = 0, config: dict[str, str] | None = None) -> None:
        self._port = port
        self._config = config or {}
        self._folder: Path | None = None
        self._environment: dict[str, str] = {}
        self._server: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"amqp://guest:guest@127.0.0.1:{self._port}/%2F"

    @property
    def pid(self) -> int:
        """The process group's leader; the server's own process is below it."""
        if self._server is None:
            raise RuntimeError("RabbitMQ is not running")
        return self._server.pid

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

    def start(self) -> None:
        """Start with a fresh folder, and return once it answers."""
        program = locate()
        self._port = self._port or _free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="real-rabbitmq-"))
        try:
            self._prepare(self._folder)
            command = [str(program)]
            if debian.is_root():
                shutil.chown(self._folder, _USER, _USER)
                for path in self._folder.rglob("*"):
                    shutil.chown(path, _USER, _USER)
                command = ["runuser", "-u", _USER, "--", *command]
            with (self._folder / "output").open("wb") as output:
                self._server = subprocess.Popen(
                    command,
                    env=self._environment,
                    cwd=self._folder,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            self._watch(self._server, self._folder)
            self._wait_until_started()
        except BaseException:
            self.stop()
            raise

    def _prepare(self, folder: Path) -> None:
        settings = {
            "listeners.tcp.1": f"127.0.0.1:{self._port}",
            "log.console": "true",
            "log.console.level": "warning",
            **self._config,
        }
        (folder / "rabbitmq.conf").write_text(
            "".join(f"{name} = {value}\n" for name, value in settings.items())
        )
        (folder / "plugins").write_text("[].\n")
        self._environment = {
            "PATH": os.environ.get("PATH", ""),
            "LANG": "C.UTF-8",
            "HOME": str(folder),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(_free_port()),
            "RABBITMQ_NODENAME": "strom@localhost",
            "RABBITMQ_DIST_PORT": str(_free_port()),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        }

    def _watch(self, server: "subprocess.Popen[bytes]", folder: Path) -> None:
        """Should this process be killed, the watcher's input closes, and it ends the node."""
        self._watcher = subprocess.Popen(
            ["sh", "-c", _WATCHER, str(server.pid), str(folder)],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _wait_until_started(self) -> None:
        assert self._server is not None
        assert self._folder is not None
        deadline = time.monotonic() + _START_DEADLINE_S
        while not self._answers():
            if self._server.poll() is not None or time.monotonic() > deadline:
                output = (self._folder / "output").read_text(errors="replace")
                raise RuntimeError(f"RabbitMQ did not start:\n{output[-2000:]}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        """Whether it greets a client: its port is open a while before."""
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self._port), timeout=2) as client,
        ):
            client.sendall(b"AMQP\x00\x00\x09\x01")
            return client.recv(1) == b"\x01"
        return False

    def stop(self) -> None:
        """End it and its port mapper, and remove its data. Stopping twice is harmless."""
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.communicate()
            self._watcher = None
        if self._server is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._server.pid, signal.SIGKILL)
            self._server.wait()
            self._server = None
            self._stop_port_mapper()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _stop_port_mapper(self) -> None:
        """It refuses to end until it has noticed that the node is gone."""
        for _ in range(50):
            with contextlib.suppress(OSError):
                done = subprocess.run(
                    ["epmd", "-kill"], env=self._environment, capture_output=True, text=True
                )
                if "not allowed" not in done.stdout + done.stderr:
                    return
            time.sleep(0.1)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def main() -> int:
    """Run the command named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.rabbitmq", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("install")
    start = commands.add_parser("start")
    start.add_argument("--port", type=int, default=0)
    arguments = parser.parse_args()
    try:
        if arguments.command == "install":
            install()
            return 0
        with RealRabbitMQ(port=arguments.port) as rabbitmq:
            print(f"RabbitMQ on {rabbitmq.url}; Ctrl-C ends it", flush=True)
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            with contextlib.suppress(KeyboardInterrupt):
                while True:
                    time.sleep(3600)
    except UnavailableError as reason:
        print(f"No real RabbitMQ here, tests that need it will be skipped: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
