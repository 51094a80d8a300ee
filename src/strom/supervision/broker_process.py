"""A broker in a process of its own, as `strom start` runs it; it can be killed."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from types import TracebackType
from typing import Self
from urllib.parse import quote

from strom.model.broker_settings import BrokerSettings
from strom.supervision.child_process import STOP_S, ChildProcess
from strom.supervision.lifeline import LIFELINE

PASSWORD = "amqp.password"  # noqa: S105 - the setting's name


class BrokerProcess:
    """`strom start` on a free port. The same data and port are used again by a second start().

    It ends with this process, even if that is killed. `module` is what runs it, in case something has to
    be changed before: see `python -m`. `options` are more of `strom start`'s own. With `passes_on`, its
    standard error goes to this process's own, and `words()` has only the last lines.
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
    ) -> None:
        self._temporary = tempfile.mkdtemp(prefix="strom-") if data is None else None
        self.data = data or self._temporary or ""
        self.bootstrap_servers = ""
        self.amqp_url = ""
        """What queue clients connect to, with `queues=True`."""
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
        # A file, for a test that reads it right after an event must find what was logged before that.
        self._words = None if passes_on else tempfile.TemporaryFile("a+b")  # noqa: SIM115
        self._child = ChildProcess("strom start", (), stderr=self._words)
        self._program = (python, "-m", module)
        self._options = options

    @property
    def pid(self) -> int:
        """The process id."""
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """What it ended with by itself; None while it runs, or after kill() and terminate()."""
        return self._child.exit_code

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._child.is_running

    def words(self) -> str:
        """Everything that it has written to standard error, over all its lives."""
        if self._words is None:
            return self._child.last_lines()
        self._words.seek(0)
        return self._words.read().decode(errors="replace")

    def start(self) -> Self:
        """Start it, and return when clients can connect; StartFailed, a RuntimeError, if it ends."""
        self._child.command = self._command()
        ready = json.loads(self._child.start())
        self.bootstrap_servers = ready["bootstrap_servers"]
        self.amqp_url = ready["amqp_url"] or ""
        if PASSWORD in self._secrets:  # masked in what the process prints
            password = quote(self._secrets[PASSWORD], safe="")
            self.amqp_url = self.amqp_url.replace(":***@", f":{password}@")
        if self.amqp_url:
            self._amqp_port = int(self.amqp_url.rpartition(":")[2].partition("/")[0])
        self._port = int(self.bootstrap_servers.rpartition(":")[2])
        return self

    def kill(self) -> None:
        """End it as a power switch would: no goodbye, nothing written."""
        self._child.kill()

    def terminate(self) -> int:
        """Ask it to stop cleanly; its exit code."""
        return self._child.stop()

    def wait(self, timeout: float = STOP_S) -> int:
        """Wait until it ends by itself; its exit code."""
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        """Settings that `strom start` takes from no argument, in a file that only its owner reads."""
        if self._config is None:
            descriptor, self._config = tempfile.mkstemp(prefix="strom-", suffix=".properties")
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                for name, value in self._secrets.items():
                    escaped = value.replace("\\", r"\\")
                    file.write(f"{name}={escaped}\n")
        return self._config
