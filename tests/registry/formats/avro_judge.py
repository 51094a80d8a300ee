"""Avro's own library for Java, asked by the tests what it thinks."""

import json
import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

PROGRAM = Path(__file__).with_name("AvroJudge.java")
NEEDED = (
    "avro-1*",
    "jackson-core-2*",
    "jackson-databind-2*",
    "jackson-annotations-2*",
    "slf4j-api*",
)


class NoJudge(Exception):
    """This machine cannot run it; the text says why."""


class AvroJudge:
    """A running AvroJudge.java: Java for all questions is started once."""

    def __init__(self) -> None:
        java = shutil.which("java")
        if java is None:
            raise NoJudge("there is no java program")
        self._process = subprocess.Popen(
            [java, "-cp", _classpath(), str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        try:
            self.describes('"int"')
        except (OSError, ValueError) as error:
            self._process.kill()
            said = self._process.communicate()[1].strip().splitlines() or ["nothing"]
            raise NoJudge(f"Java cannot run a program from its source: {said[0]}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=20)

    def describes(self, schema: str) -> dict[str, Any]:
        """Ask for the canonical texts of a schema, or why it is invalid."""
        return self._ask({"schema": schema})

    def compares(self, reader: str, writer: str) -> dict[str, Any]:
        """Ask whether a schema can read another's data."""
        return self._ask({"reader": reader, "writer": writer})

    def _ask(self, question: dict[str, str]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


def _classpath() -> str:
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise NoJudge("pyspark is not installed, whose jars it is")
    folder = Path(found.origin).parent / "jars"
    jars = [jar for pattern in NEEDED for jar in folder.glob(f"{pattern}.jar")]
    if len(jars) < len(NEEDED):
        raise NoJudge(f"pyspark's jars lack some of {', '.join(NEEDED)}")
    return os.pathsep.join(map(str, jars))
