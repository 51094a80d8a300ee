"""A broker in a process of its own, as `strom start` runs it; it can be killed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from types import TracebackType
from typing import Self
from urllib.parse import quote

from strom.model.broker_settings import BrokerSettings

STOP_SECONDS = 30
PASSWORD = "amqp.password"  # noqa: S105 - the setting's name


class BrokerProcess:
    """`strom start` on a free port. The same data and port are used again by a second start().

    `module` is what runs it, in case something has to be changed before: see `python -m`. `options` are
    more of `strom start`'s own.
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
        self._python = python
        self._module = module
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        # A file, and not a pipe: a pipe that nobody empties stops the writer when it is full.
        self._words = tempfile.TemporaryFile("a+b")  # noqa: SIM115 - closed by stop()
        self._config: str | None = None

    @property
    def pid(self) -> int:
        """The process id."""
        if self._process is None:
            raise RuntimeError("the broker is not running")
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """What it ended with by itself; None while it runs, or after kill() and terminate()."""
        return None if self._process is None else self._process.poll()

    def words(self) -> str:
        """Everything that it has written to standard error, over all its lives."""
        self._words.seek(0)
        return self._words.read().decode(errors="replace")

    def start(self) -> Self:
        """Start it, and return when clients can connect; RuntimeError with its words if it ends."""
        command = [self._python, "-m", self._module, "start", "--json"]
        command += ["--port", str(self._port), "--data", self.data]
        command += ["--amqp-port", str(self._amqp_port)]
        command += ["--set", f"amqp.management.port={-1 if self._amqp_port else 0}"]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={value}"]
        if self._secrets:
            command += ["--config", self._secrets_file()]
        process = subprocess.Popen(
            [*command, *self._options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            env=dict(os.environ),
            # Ctrl-C is for whoever started it, and who ends it then.
            start_new_session=bool(self._options),
        )
        self._process = process
        assert process.stdout is not None  # noqa: S101 - asked for above
        line = process.stdout.readline()
        if not line:
            process.communicate()
            self._process = None
            raise RuntimeError(f"strom start failed: {self.words().strip()}")
        ready = json.loads(line)
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
        self._end(signal.SIGKILL)

    def terminate(self) -> int:
        """Ask it to stop cleanly; its exit code."""
        return self._end(signal.SIGTERM)

    def wait(self, timeout: float = STOP_SECONDS) -> int:
        """Wait until it ends by itself; its exit code."""
        if self._process is None:
            raise RuntimeError("the broker is not running")
        return self._process.wait(timeout)

    def stop(self) -> None:
        """Stop it, and remove its temporary folder."""
        self.terminate()
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

    def _secrets_file(self) -> str:
        """Settings that `strom start` takes from no argument, in a file that only its owner reads."""
        if self._config is None:
            descriptor, self._config = tempfile.mkstemp(prefix="strom-", suffix=".properties")
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                for name, value in self._secrets.items():
                    escaped = value.replace("\\", r"\\")
                    file.write(f"{name}={escaped}\n")
        return self._config

    def _end(self, how: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(how)
        try:
            process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        return process.returncode
