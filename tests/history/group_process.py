"""A program that is one member of a group.

python -m tests.history.group_process NAME HISTORY ADDRESS PROTOCOL
"""

import random
import sys
from typing import Any

from tests.history.client_processes import StopWhenAsked, file_recorder
from tests.history.group_members import Member

CLASSIC = {"group.protocol": "classic"}
PROTOCOLS = {
    "range": {**CLASSIC, "partition.assignment.strategy": "range"},
    "cooperative": {**CLASSIC, "partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}
SHORT_SESSION_MS = 700


def main() -> None:
    """Read and commit until SIGTERM."""
    name, path, address, protocol = sys.argv[1:]
    stop = StopWhenAsked()
    settings: dict[str, Any] = dict(PROTOCOLS[protocol])
    if settings["group.protocol"] == "classic":  # in the other one the broker decides
        settings |= {"session.timeout.ms": SHORT_SESSION_MS, "heartbeat.interval.ms": 100}
    member = Member(name, file_recorder(path), random.Random(name), address, **settings)
    while not stop:
        member.turn()
    member.finish()


if __name__ == "__main__":
    main()
