"""Clients in processes of their own, which can be stopped and killed, and leave their history behind."""

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from strom.testing.history import Operation, Recorder, read_lines

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 60


class ClientProcess:
    """A program of this folder that runs until it is stopped."""

    def __init__(self, module: str, name: str, folder: Path, *args: str) -> None:
        self.name = name
        self.history_path = folder / f"{name}.history"
        self._words_path = folder / f"{name}.words"
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
        with self._words_path.open("wb") as words:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, name, str(self.history_path), *args],
                cwd=ROOT,
                env=environment,
                stdout=words,
                stderr=words,
            )

    @property
    def is_running(self) -> bool:
        """Whether it has not ended, by itself or otherwise."""
        return self._process.poll() is None

    @property
    def words(self) -> str:
        """What it has said."""
        return self._words_path.read_text(errors="replace")

    @property
    def has_begun(self) -> bool:
        """Whether it has done anything yet."""
        return self.history_path.exists() and self.history_path.stat().st_size > 0

    def kill(self) -> None:
        """End it without a goodbye."""
        self._process.kill()
        self._process.wait()

    def stand_still(self) -> None:
        """Stop it, with all its connections open."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on as if nothing had been."""
        self._process.send_signal(signal.SIGCONT)

    def ask_to_stop(self) -> None:
        """Ask it to finish what it does."""
        self._process.send_signal(signal.SIGTERM)

    def wait(self) -> None:
        """Return when it has finished; its words if it failed."""
        try:
            code = self._process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} does not end:\n{self.words}") from None
        # One that was asked while it was still starting ends by the signal itself.
        assert code in (0, -signal.SIGTERM), f"{self.name} ended with {code}:\n{self.words}"


def read_histories(folder: Path) -> list[Operation]:
    """What all processes have written down."""
    lines = (path.read_text(errors="replace").splitlines() for path in folder.glob("*.history"))
    return read_lines(itertools.chain.from_iterable(lines))


def file_recorder(path: str) -> Recorder:
    """For a client process: each line is with the operating system before the client goes on."""
    file = Path(path).open("a", encoding="utf-8", buffering=1)  # noqa: SIM115 - open to the end
    return Recorder(now=time.monotonic_ns, write=lambda line: file.write(line + "\n"))


class StopWhenAsked:
    """Becomes true with SIGTERM."""

    def __init__(self) -> None:
        self._asked = False
        signal.signal(signal.SIGTERM, self._note)

    def __bool__(self) -> bool:
        return self._asked

    def _note(self, *_: object) -> None:
        self._asked = True
