"""How soon a broker is ready again after many commits of offsets: python -m benchmarks.restart [--quick].

Commits are sent over one connection, many of them in flight, by few groups and by many. The broker is
then killed and started, stopped and started; a start takes until the process reports that it is ready.
Only strom is measured, for the real Kafka reads its offsets after it has reported that.
"""

import argparse
import asyncio
import itertools
import struct
import time
from typing import NamedTuple

from benchmarks import machine
from benchmarks.commit_clients import COMMIT_VERSION
from benchmarks.internal_topics import OFFSETS, create_coordinator
from benchmarks.peers import Peer
from benchmarks.raw_client import frame
from strom.testing import BrokerProcess
from strom.wire.kafka.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

COMMITS, QUICK_COMMITS = 2_400_000, 200_000
GOAL_SECONDS = 5.0
TOPIC = "orders"
_UNDER_WAY = 500


class Case(NamedTuple):
    """Who commits."""

    groups: int
    partitions: int

    def __str__(self) -> str:
        return f"{self.groups:,} groups, {self.partitions} partitions each"


CASES = (Case(10, 10), Case(1_000, 100))


class Figures(NamedTuple):
    """What a case took, in seconds."""

    commits_per_second: float
    after_kill: float
    after_stop: float


def main() -> int:
    """Measure and print; exit code 1 if the goal was missed."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="fewer commits")
    commits = QUICK_COMMITS if arguments.parse_args().quick else COMMITS
    for name, text in machine.describe().items():
        print(f"{name:<12}{text}")
    print(
        f"\n{commits:,} commits by{'':<25}{'commits/s':>12}{'after kill s':>14}{'after stop s':>14}"
    )
    reached = True
    for case in CASES:
        rate, after_kill, after_stop = measure(case, commits)
        print(f"{case!s:<36}{rate:>12.0f}{after_kill:>14.2f}{after_stop:>14.2f}")
        reached &= max(after_kill, after_stop) < GOAL_SECONDS
    print(f"Goal: ready within {GOAL_SECONDS:.0f} s: {'reached' if reached else 'MISSED'}.")
    return 0 if reached else 1


def measure(case: Case, commits: int) -> Figures:
    """Commit, kill, start, stop and start."""
    with BrokerProcess() as broker:
        peer = Peer(broker)
        peer.create_topic(TOPIC, case.partitions, {})
        create_coordinator(peer, OFFSETS)
        began = time.perf_counter()
        asyncio.run(commit(broker.bootstrap_servers, case, commits))
        rate = commits / (time.perf_counter() - began)
        broker.kill()
        after_kill = seconds_to_start(broker)
        broker.terminate()
        return Figures(rate, after_kill, seconds_to_start(broker))


def seconds_to_start(broker: BrokerProcess) -> float:
    """From the start of the process until it says that it is ready."""
    began = time.perf_counter()
    broker.start()
    return time.perf_counter() - began


async def commit(bootstrap_servers: str, case: Case, commits: int) -> None:
    """Send commits of all groups in turn, and return when the last one is answered."""
    host, _, port = bootstrap_servers.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    keys = itertools.product(range(case.partitions), range(case.groups))
    frames = itertools.cycle([_frame(f"group-{group}", index) for index, group in keys])
    under_way = 0
    for data in itertools.islice(frames, commits):
        writer.write(data)
        under_way += 1
        if under_way == _UNDER_WAY:
            for _ in range(_UNDER_WAY // 2):
                await _check_answer(reader)
            under_way -= _UNDER_WAY // 2
    for _ in range(under_way):
        await _check_answer(reader)
    writer.close()
    await writer.wait_closed()


def _frame(group: str, index: int) -> bytes:
    place = OffsetCommitRequestPartition(
        partition_index=index, committed_offset=1, committed_metadata=None
    )
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[place])
    return frame(OffsetCommitRequest(group_id=group, topics=[topic]), COMMIT_VERSION)


async def _check_answer(reader: asyncio.StreamReader) -> None:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    answer = await reader.readexactly(size)
    # The error code of the one partition stands before its tags, those of its topic and of all.
    (code,) = struct.unpack_from(">h", answer, size - 5)
    if code:
        raise RuntimeError(f"a commit failed with code {code}")


if __name__ == "__main__":
    raise SystemExit(main())
