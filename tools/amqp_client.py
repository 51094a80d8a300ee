"""RabbitMQ's own client for Java: it has to work with strom unchanged.

    python -m tools.amqp_client fetch    get its jars, once

They lie beside those of Apache Kafka. Tests skip with the reason where they cannot be had.
"""

import subprocess
import sys
from pathlib import Path

from tools.jars import Jars, fetch_command
from tools.jars import UnavailableError as UnavailableError
from tools.kafka import home

JARS = Jars("amqp_client", "RabbitMQ's Java client", "make rabbitmq")


def run_source(
    source: Path, *arguments: str, timeout_s: float = 60
) -> subprocess.CompletedProcess[str]:
    """Compile and run one Java file that uses the client; `locate` says beforehand if that works."""
    java, classpath = locate()
    command = [java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classpath]
    return subprocess.run(
        [*command, str(source), *arguments], capture_output=True, text=True, timeout=timeout_s
    )


def locate() -> tuple[str, str]:
    """Java and the class path, or why there is none."""
    return JARS.with_compiler(_folder())


def fetch() -> None:
    """Get the jars unless they are there, or raise UnavailableError."""
    JARS.fetch(_folder())
    locate()


def _folder() -> Path:
    return home() / "amqp-client"


def main() -> int:
    """Run the command named on the command line."""
    return fetch_command("tools.amqp_client", __doc__, fetch, "No Java client of RabbitMQ")


if __name__ == "__main__":
    sys.exit(main())
