"""Kafka's own transforms and converters, as a program to ask."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tools import kafka

SOURCE = Path(__file__).parents[1] / "foreign" / "java" / "ConnectJudge.java"
FLAGS = ("-Xmx128m", *kafka.QUICK_START_FLAGS, "-Duser.timezone=UTC", "-Duser.language=en")


class Judge:
    """A running `ConnectJudge`; one question at a time."""

    def __init__(self) -> None:
        command = kafka.locate().command(str(SOURCE), flags=FLAGS)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.stdin.close()
        self._process.wait(timeout=20)
        self._process.stdout.close()

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Kafka's answer."""
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the judge ended with {self._process.wait(timeout=20)}")
        answer: dict[str, Any] = json.loads(line)
        return answer
