"""Clients at work in threads of their own, each with its own chance."""

import threading
from abc import ABC, abstractmethod
from random import Random
from typing import Any

from strom.testing.history import Recorder

TOPIC = "watched"
PATIENCE_SECONDS = 30


def key_of(partition: int, topic: str = TOPIC) -> str:
    """How a history names a partition."""
    return f"{topic}-{partition}"


def partition_of(key: str) -> int:
    """The partition that a history's key names."""
    return int(key.rpartition("-")[2])


def client_settings(address: str, **more: Any) -> dict[str, Any]:
    """For clients that come back at once when the broker does."""
    return {
        "bootstrap.servers": address,
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 100,
        "metadata.recovery.strategy": "none",
        "log_level": 0,
        **more,
    }


class Worker(ABC):
    """Does one turn after the other until it is stopped."""

    pause_seconds = 0.005

    def __init__(self, name: str, recorder: Recorder, chance: Random) -> None:
        self.name = name
        self.recorder = recorder
        self.chance = Random(chance.random())
        self.turns = 0
        self.problem: BaseException | None = None
        self._life = 1
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def process(self) -> str:
        """The name in the history: another one after each restart."""
        return f"{self.name}.{self._life}"

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Do no further turn."""
        self._stop.set()

    def stop(self) -> None:
        """Finish the turn, then `finish`; raises what went wrong meanwhile."""
        self._stop.set()
        self._thread.join(2 * PATIENCE_SECONDS)
        assert not self._thread.is_alive(), f"{self.name} does not come to an end"
        if self.problem is not None:
            raise self.problem

    @abstractmethod
    def turn(self) -> None:
        """Do something."""

    def finish(self) -> None:
        """Let go of everything."""
        return

    def begin_new_life(self) -> None:
        """Go by another name from now on."""
        self._life += 1

    def _run(self) -> None:
        try:
            while not self._stop.wait(self.pause_seconds):
                self.turn()
                self.turns += 1
            self.finish()
        except BaseException as problem:  # noqa: BLE001 - raised again by stop()
            self.problem = problem
