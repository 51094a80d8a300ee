"""Clients that commit offsets: one after the other as fast as answers come, or without waiting."""

import threading
import time
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, TopicPartition

from benchmarks.peers import SILENT
from benchmarks.raw_client import RESPONSE_HEADER_BYTES, drive, frame
from strom.wire.kafka.codec import decode
from strom.wire.kafka.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

COMMIT_VERSION = 9
"""The last one that names topics, so that their ids need not be known."""
_UNDER_WAY = 500
_FRAMES = 200
_PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class WaitingCommits:
    """Every group commits, waits for the answer, and commits again; the result is commits per second."""

    bootstrap_servers: str
    topic: str
    seconds: float
    groups: int

    def __call__(self) -> float:
        """Run in a client process."""
        frames = [
            [self._frame(f"{self.topic}-{group}", offset) for offset in range(_FRAMES)]
            for group in range(self.groups)
        ]
        latency = drive(self.bootstrap_servers, frames, self.seconds, _check_committed)
        return latency.requests_per_second

    def _frame(self, group: str, offset: int) -> bytes:
        place = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=None
        )
        topic = OffsetCommitRequestTopic(name=self.topic, partitions=[place])
        return frame(OffsetCommitRequest(group_id=group, topics=[topic]), COMMIT_VERSION)


@dataclass(frozen=True)
class AsynchronousCommits:
    """librdkafka's asynchronous commits; the result is commits per second."""

    bootstrap_servers: str
    topic: str
    commits: int
    """By all groups together."""
    groups: int

    def __call__(self) -> float:
        """From the first commit until the last one is answered."""
        each = self.commits // self.groups
        committers = [
            _Committer(self.bootstrap_servers, self.topic, f"{self.topic}-{group}", each)
            for group in range(self.groups)
        ]
        for one in committers:
            one.commit_one()
        threads = [threading.Thread(target=one.commit_all) for one in committers]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - began
        if problems := [problem for one in committers for problem in one.problems]:
            raise RuntimeError(f"{len(problems)} commits failed: {problems[0]}")
        return each * self.groups / seconds


@dataclass
class _Committer:
    """One group's consumer."""

    bootstrap_servers: str
    topic: str
    group: str
    commits: int
    problems: list[KafkaError | str] = field(default_factory=list)
    _answered: int = 0

    def __post_init__(self) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "log_level": SILENT,
                "group.id": self.group,
                "enable.auto.commit": False,
                "on_commit": self._note,
            }
        )

    def commit_one(self) -> None:
        """A first commit, which finds the coordinator."""
        places = [TopicPartition(self.topic, 0, 0)]
        self._consumer.commit(offsets=places, asynchronous=False)
        self._answered = 0

    def commit_all(self) -> None:
        """All the others, with some of them in flight at the same time."""
        for offset in range(self.commits):
            self._wait_for(offset - _UNDER_WAY)
            self._consumer.commit(
                offsets=[TopicPartition(self.topic, 0, offset)], asynchronous=True
            )
        self._wait_for(self.commits)
        self._consumer.close()

    def _wait_for(self, answered: int) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while self._answered < answered:
            self._consumer.poll(0.01)
            if time.monotonic() > deadline:
                raise RuntimeError("commits are not answered")

    def _note(self, error: KafkaError | None, _: list[TopicPartition]) -> None:
        self._answered += 1
        if error is not None:
            self.problems.append(error)


def _check_committed(answer: bytes) -> None:
    view = memoryview(answer)
    response = decode(OffsetCommitResponse, COMMIT_VERSION, view, RESPONSE_HEADER_BYTES)
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code:
                raise RuntimeError(f"a commit failed with code {partition.error_code}")
