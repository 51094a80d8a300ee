"""A broker in a child process, as `strom start` runs it; it can be killed."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from typing import Self
from urllib.parse import quote

from strom.model.broker_settings import BrokerSettings
from strom.supervision.child_process import STOP_S, ChildProcess
from strom.supervision.lifeline import LIFELINE

PASSWORD = "amqp.password"  # noqa: S105 - the setting's name


class BrokerProcess:
    """`strom start` on a free port. A second start() reuses the data and the port of the first.

    It ends with this process, even if that is killed. `module` runs as `python -m`; a test names its own
    to patch strom first. `options` are further options of `strom start`. With `passes_on`, its standard
    error is copied to that of this process, and `words()` returns only the last lines. `env` is its
    environment, by default that of this process.
    """

    def __init__(
        self,
        *,
        data: str | None = None,
        settings: dict[str, str] | None = None,
        port: int = 0,
        python: str = sys.executable,
        queues: bool = False,
        module: str = "strom",
        options: Sequence[str] = (),
        passes_on: bool = False,
        env: dict[str, str] | None = None,
    ) -> None:
        self._temporary = tempfile.mkdtemp(prefix="strom-") if data is None else None
        self.data = data or self._temporary or ""
        self.bootstrap_servers = ""
        self.amqp_url = ""
        """The URL for AMQP clients, with `queues=True`."""
        self._amqp_port = -1 if queues else 0
        self._port = port
        definitions = BrokerSettings.definitions()
        self._settings = dict(settings or {})
        self._secrets = {
            name: self._settings.pop(name)
            for name in tuple(self._settings)
            if name in definitions and definitions[name].is_secret
        }
        self._config: str | None = None
        # A file, not a pipe: right after an event, a test must find everything logged before it.
        self._words = None if passes_on else tempfile.TemporaryFile("a+b")  # noqa: SIM115
        name = "The broker" if passes_on else "strom start"
        self._child = ChildProcess(name, (), stderr=self._words, env=env)
        self._program = (python, "-m", module)
        self._options = options

    @property
    def pid(self) -> int:
        """The process id; StartFailed if it was not started."""
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code if it ended by itself; None while it runs, and after kill() and terminate()."""
        return self._child.exit_code

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._child.is_running

    def words(self) -> str:
        """Everything that it has written to standard error, over all starts."""
        if self._words is None:
            return self._child.last_lines()
        self._words.seek(0)
        return self._words.read().decode(errors="replace")

    def start(self) -> Self:
        """Start it, and return when clients can connect; StartFailed, a RuntimeError, if it exits."""
        self._child.command = self._command()
        ready = json.loads(self._child.start())
        self.bootstrap_servers = ready["bootstrap_servers"]
        self.amqp_url = ready["amqp_url"] or ""
        if PASSWORD in self._secrets:  # the child masks it in its output
            password = quote(self._secrets[PASSWORD], safe="")
            self.amqp_url = self.amqp_url.replace(":***@", f":{password}@")
        if self.amqp_url:
            self._amqp_port = int(self.amqp_url.rpartition(":")[2].partition("/")[0])
        self._port = int(self.bootstrap_servers.rpartition(":")[2])
        return self

    def kill(self) -> None:
        """SIGKILL: it closes no connection and writes nothing."""
        self._child.kill()

    def terminate(self) -> int:
        """SIGTERM, for a clean shutdown; its exit code."""
        return self._child.stop()

    def wait(self, timeout: float = STOP_S) -> int:
        """Wait until it exits by itself; its exit code."""
        return self._child.wait(timeout)

    def stop(self) -> None:
        """Stop it, and remove its temporary folder."""
        self._child.close()
        if self._words is not None:
            self._words.close()
        if self._config is not None:
            os.remove(self._config)
            self._config = None
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _command(self) -> list[str]:
        command = [*self._program, "start", "--json", LIFELINE]
        command += ["--port", str(self._port), "--data", self.data]
        command += ["--amqp-port", str(self._amqp_port)]
        command += ["--set", f"amqp.management.port={-1 if self._amqp_port else 0}"]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={value}"]
        if self._secrets:
            command += ["--config", self._secrets_file()]
        return [*command, *self._options]

    def _secrets_file(self) -> str:
        """A file, readable only by its owner, for the settings that are not allowed as arguments."""
        if self._config is None:
            descriptor, self._config = tempfile.mkstemp(prefix="strom-", suffix=".properties")
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                for name, value in self._secrets.items():
                    escaped = value.replace("\\", r"\\")
                    file.write(f"{name}={escaped}\n")
        return self._config
