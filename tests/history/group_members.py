"""Consumers in groups, that write down what they own, read and commit."""

import struct
from random import Random
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from strom.testing.history import Commit, OffsetFetch, Outcome, Owns, Recorder
from tests.history.plain_clients import CONSUMER, poll
from tests.history.workers import (
    PATIENCE_SECONDS,
    TOPIC,
    Worker,
    client_settings,
    key_of,
)

GROUP = "readers"
MEMBER = {
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 200,
    "partition.assignment.strategy": "range",
}
REFUSED = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError._NO_OFFSET,
        KafkaError._STATE,
    }
)
"""With these a commit has certainly not happened."""


class Member(Worker):
    """A member that reads, and commits what it has read before it reads on."""

    def __init__(
        self, name: str, recorder: Recorder, chance: Random, address: str, **settings: Any
    ) -> None:
        super().__init__(name, recorder, chance)
        chosen = {**CONSUMER, "group.id": GROUP, **(settings or MEMBER)}
        self._consumer = Consumer(client_settings(address, **chosen))
        self._moved: set[str] = set()
        self._to_commit: dict[str, int] = {}
        self._consumer.subscribe(
            [TOPIC], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def turn(self) -> None:
        """Poll, and commit."""
        running = self.recorder.begin(self.process)
        reads = poll(self._consumer, self.chance.randint(1, 50), 0.05)
        moved, self._moved = self._moved, set()
        running.end(Outcome.OK, reads, moved=moved)
        for read in reads:
            self._to_commit[read.key] = read.offset + 1
        if self._to_commit and self.chance.random() < 0.5:
            self._commit()

    def finish(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def _commit(self) -> None:
        offsets, self._to_commit = self._to_commit, {}
        places = [
            TopicPartition(TOPIC, int(key.rpartition("-")[2]), offset)
            for key, offset in offsets.items()
        ]
        running = self.recorder.begin(
            self.process, *(Commit(GROUP, key, offset) for key, offset in offsets.items())
        )
        try:
            done = self._consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as problem:
            failed = problem.args[0].code() in REFUSED
            running.end(Outcome.FAILED if failed else Outcome.UNKNOWN)
            self._to_commit = offsets
            return
        if all(one.error is None for one in done):
            running.end(Outcome.OK)
        else:
            running.end(Outcome.UNKNOWN)
            self._to_commit = offsets

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        keys = {key_of(one.partition) for one in (*partitions, *consumer.assignment())}
        self._moved |= {key_of(one.partition) for one in partitions}
        generation = generation_of(consumer)
        self.recorder.note(self.process, *(Owns(GROUP, generation, key) for key in sorted(keys)))
        note_committed(self.recorder, self.process, consumer, partitions)

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            self._moved.add(key_of(one.partition))
            self._to_commit.pop(key_of(one.partition), None)


def generation_of(consumer: Consumer) -> int:
    """The generation that a member is in, from what it would hand on to a transaction."""
    metadata = bytes(consumer.consumer_group_metadata())
    magic = b"CGMDv2:"
    assert metadata.startswith(magic), metadata
    (generation,) = struct.unpack_from("<i", metadata, len(magic))
    return int(generation)


def note_committed(
    recorder: Recorder, process: str, consumer: Consumer, partitions: list[TopicPartition]
) -> None:
    """Ask how far the group has read; an answer that does not come is none."""
    if not partitions:
        return
    running = recorder.begin(process)
    wanted = [TopicPartition(one.topic, one.partition) for one in partitions]
    try:
        told = consumer.committed(wanted, timeout=PATIENCE_SECONDS)
    except KafkaException:
        running.end(Outcome.UNKNOWN)
        return
    running.end(
        Outcome.OK,
        [
            OffsetFetch(
                GROUP, key_of(one.partition, one.topic), one.offset if one.offset >= 0 else None
            )
            for one in told
            if one.error is None
        ],
    )


def commit_beginnings(recorder: Recorder, address: str, partitions: int) -> None:
    """Commit offset 0 of every partition, before the group has members.

    Otherwise librdkafka 2.16 looks up the first offset of each partition. If a rebalance outdates the
    lookup it repeats it, and then fetches a partition that was revoked: those records are delivered when
    the partition is assigned again, wherever the group is by then.
    """
    consumer = Consumer(client_settings(address, **{**CONSUMER, "group.id": GROUP}))
    running = recorder.begin(
        "beginning", *(Commit(GROUP, key_of(partition), 0) for partition in range(partitions))
    )
    places = [TopicPartition(TOPIC, partition, 0) for partition in range(partitions)]
    try:
        done = consumer.commit(offsets=places, asynchronous=False)
    finally:
        consumer.close()
    assert all(one.error is None for one in done), done
    running.end(Outcome.OK)


def committed_offsets(address: str, group: str, partitions: int) -> dict[int, int]:
    """How far a group has read, where it has read anything."""
    consumer = Consumer(client_settings(address, **{**CONSUMER, "group.id": group}))
    places = [TopicPartition(TOPIC, partition) for partition in range(partitions)]
    try:
        told = consumer.committed(places, timeout=PATIENCE_SECONDS)
    finally:
        consumer.close()
    return {one.partition: one.offset for one in told if one.offset > 0}


class Asker(Worker):
    """A client outside the group that fetches its offsets again and again."""

    pause_seconds = 0.1

    def __init__(
        self, name: str, recorder: Recorder, chance: Random, address: str, partitions: int
    ) -> None:
        super().__init__(name, recorder, chance)
        self._consumer = Consumer(client_settings(address, **{**CONSUMER, "group.id": GROUP}))
        self._places = [TopicPartition(TOPIC, partition) for partition in range(partitions)]

    def turn(self) -> None:
        """Ask."""
        note_committed(self.recorder, self.process, self._consumer, self._places)

    def finish(self) -> None:
        """Ask a last time."""
        self.turn()
        self._consumer.close()
