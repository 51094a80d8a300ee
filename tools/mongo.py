"""A stand-in of MongoDB, for its connectors' tests: its own server comes under no package name.

    python -m tools.mongo fetch    get its jars, once

It speaks MongoDB's wire protocol, keeps everything in memory, and has change streams; it has no sessions
and no transactions. Its jars lie beside those of Apache Kafka.
"""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.jars import Jars, fetch_command
from tools.jars import UnavailableError as UnavailableError
from tools.kafka import home

JARS = Jars("mongo", "the stand-in of MongoDB", "make mongo")
_SOURCE = Path(__file__).resolve().parent / "MongoStandIn.java"


@contextlib.contextmanager
def stand_in(port: int = 0) -> Iterator[str]:
    """Run it; the address, for as long as the block lasts."""
    java, classpath = locate()
    command = [java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classpath]
    process = subprocess.Popen(
        [*command, str(_SOURCE), str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    assert process.stdout
    try:
        line = process.stdout.readline()
        if not line:
            raise UnavailableError("the stand-in of MongoDB ended at once")
        yield f"mongodb://127.0.0.1:{int(line)}/?directConnection=true"
    finally:
        process.stdin.close()  # it ends when its input does
        process.stdout.close()
        process.wait(timeout=20)


def locate() -> tuple[str, str]:
    """Java and the class path, or why there is none."""
    return JARS.with_compiler(_folder())


def fetch() -> None:
    """Get the jars unless they are there, or raise UnavailableError."""
    JARS.fetch(_folder())
    locate()


def _folder() -> Path:
    return home() / "mongo"


def main() -> int:
    """Run the command named on the command line."""
    return fetch_command("tools.mongo", __doc__, fetch, "No stand-in of MongoDB")


if __name__ == "__main__":
    sys.exit(main())
