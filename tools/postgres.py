"""The real PostgreSQL as a throw-away server, for tests and benchmarks.

    python -m tools.postgres install    get Debian's package, once, if this is allowed here
    python -m tools.postgres start      run a throw-away server until Ctrl-C

Tests that need it skip with the reason where it cannot be had.
"""

import argparse
import contextlib
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

_USER = "postgres"
_START_DEADLINE_S = 60
# Processes may be killed in tests, but the machine does not lose power.
FOR_TESTS = {"fsync": "off", "full_page_writes": "off"}
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "wal_level": "logical",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    "wal_sender_timeout": "20s",
    "shared_buffers": "32MB",
}


class UnavailableError(Exception):
    """This machine cannot run the real PostgreSQL; the text says why and what would help."""


def locate() -> Path:
    """The folder of the newest installed server's programs, or why there is none."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"),
        key=lambda path: float(path.parent.parent.name),
    )
    if not found:
        raise UnavailableError("PostgreSQL is not installed; run `make postgres` (Debian, as root)")
    if debian.is_root() and shutil.which("runuser") is None:
        raise UnavailableError("PostgreSQL does not run as root, and there is no `runuser`")
    return found[-1].parent


def install() -> None:
    """Install Debian's package unless it is there already, or raise UnavailableError."""
    with contextlib.suppress(UnavailableError):
        locate()
        return
    debian.install("PostgreSQL", "postgresql")
    locate()


class RealPostgres:
    """One server on a free loopback port; its data goes when it is closed.

    `stop` and `start` may be called in between: data and port stay.
    """

    def __init__(self, *, settings: dict[str, str] | None = None, password: str = "") -> None:
        self.settings = {**SETTINGS, **(settings or {})}
        self.user = _USER
        self.password = password
        """With one, clients have to know it (SCRAM); without, every client is trusted."""
        self.port = 0
        self.database = _USER
        self._folder: Path | None = None

    @property
    def url(self) -> str:
        """The address for clients, without user and password."""
        return f"postgresql://127.0.0.1:{self.port}/{self.database}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start, the first time with a fresh folder, and return once it answers."""
        programs = locate()
        try:
            if self._folder is None:
                self.port = self.port or _free_port()
                self._folder = Path(tempfile.mkdtemp(prefix="real-postgres-"))
                self._create(self._folder, programs)
            options = [
                f"-p {self.port} -k {self._folder}",
                *(f"-c {name}={value}" for name, value in self.settings.items()),
            ]
            log = self._folder / "output"
            self._run(
                programs / "pg_ctl", "start", "-w", "-t", str(_START_DEADLINE_S), "-l", str(log),
                "-D", str(self._folder / "data"), "-o", " ".join(options),
            )  # fmt: skip
        except BaseException:
            self.close()
            raise

    def _create(self, folder: Path, programs: Path) -> None:
        login = ["-A", "trust"]
        if self.password:
            secret = folder / "password"
            secret.write_text(self.password)
            login = ["-A", "scram-sha-256", "--pwfile", str(secret)]
        if debian.is_root():
            for path in (folder, *folder.iterdir()):
                shutil.chown(path, _USER, _USER)
        self._run(
            programs / "initdb", "-U", self.user, "-E", "UTF8", "--locale", "C.UTF-8", "-N", *login,
            "-D", str(folder / "data"),
        )  # fmt: skip

    def _run(self, program: Path, *arguments: str) -> None:
        command = [str(program), *arguments]
        if debian.is_root():
            command = ["runuser", "-u", _USER, "--", *command]
        # Not a pipe: the server inherits it, and a reader would wait for its end forever.
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                command, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
            if done.returncode:
                output.seek(0)
                text = output.read().decode(errors="replace")
                raise RuntimeError(f"{program.name} failed:\n{text[-2000:]}")

    def stop(self, mode: str = "fast") -> None:
        """Cut all clients off and end; `immediate` ends as a crash does."""
        assert self._folder is not None
        self._run(locate() / "pg_ctl", "stop", "-m", mode, "-D", str(self._folder / "data"))

    def begin_stop(self) -> subprocess.Popen[bytes]:
        """Have it shut down, which waits for clients that replicate; the process ends when it is done."""
        assert self._folder is not None
        command = [str(locate() / "pg_ctl"), "stop", "-D", str(self._folder / "data")]
        if debian.is_root():
            command = ["runuser", "-u", _USER, "--", *command]
        return subprocess.Popen(
            command, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )

    def begin_new_timeline(self) -> None:
        """Have the next start end with a new timeline, as a restore and a promotion do."""
        assert self._folder is not None
        self.settings["restore_command"] = "false"
        signal_file = self._folder / "data" / "recovery.signal"
        signal_file.touch()
        if debian.is_root():
            shutil.chown(signal_file, _USER, _USER)

    def close(self) -> None:
        """End it and remove its data. Closing twice is harmless."""
        if self._folder is not None:
            with contextlib.suppress(RuntimeError, UnavailableError):
                self.stop("immediate")
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def main() -> int:
    """Run the command named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.postgres", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("install")
    commands.add_parser("start")
    arguments = parser.parse_args()
    try:
        if arguments.command == "install":
            install()
            return 0
        with RealPostgres() as server:
            print(f"PostgreSQL on {server.url}, user {server.user}; Ctrl-C ends it", flush=True)
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            with contextlib.suppress(KeyboardInterrupt):
                while True:
                    time.sleep(3600)
    except UnavailableError as reason:
        print(f"No real PostgreSQL here, tests that need it will be skipped: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
