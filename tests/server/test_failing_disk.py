"""Each call to the disk fails once under a running node: what was acknowledged is there after a restart.

A shortage of space or descriptors is never taken for damage, and passes without a restart. By default a
few calls are chosen by chance; STROM_SEED repeats a choice, and `make soak` tries every call.
"""

import asyncio
import errno
import os
import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from strom.broker.housekeeping import Housekeeping
from strom.model.errors import ApiError, ErrorCode, StorageError, UserError
from strom.model.settings import DAY_MS
from strom.testing import MemoryFiles
from strom.wire.kafka.batch import headers
from strom.wire.kafka.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from strom.wire.kafka.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from strom.wire.kafka.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from strom.wire.kafka.messages.k10_find_coordinator import FindCoordinatorRequest
from strom.wire.kafka.messages.k20_delete_topics import DeleteTopicsRequest
from strom.wire.kafka.records import Record, build_batch, read_records
from tests.server.kafka_calls import (
    Caller,
    RunningNode,
    create_request,
    produce_request,
    running_node,
)

TOPICS = ("plain", "compacted")
ROUNDS = 6
KEYS = 3
SAMPLES = 4
PATIENCE_S = 60
OPENING = frozenset({"open", "open_directory", "list"})
WRITING = frozenset({"open", "append", "rename", "make_directory"})
FAILURES = {
    "EIO": (errno.EIO, frozenset[str]()),
    # A sync that fails for want of space is as final as any: the kernel drops the pages.
    "ENOSPC": (errno.ENOSPC, WRITING),
    "EMFILE": (errno.EMFILE, OPENING),
}
# Segments of two batches, so that files are created, closed and compacted all the time.
SMALL = {"segment_index_bytes": "16", "index_interval_bytes": "0"}
SETTINGS: dict[str, Any] = {
    "offsets_topic_num_partitions": 1,
    # The test does the work of the background itself, so that it is part of each run.
    "retention_check_interval_ms": DAY_MS,
    "cleaner_backoff_ms": DAY_MS,
    "recovery_point_interval_ms": DAY_MS,
}


class FailingFiles(MemoryFiles):
    """Counts calls from `arm` on, and lets one of them fail."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.counted = 0
        self._nth = 0
        self._code = 0
        self._verbs: frozenset[str] = frozenset()

    def arm(self, nth: int, name: str) -> None:
        self._code, self._verbs = FAILURES[name]
        self.counted, self._nth = 0, nth

    def disarm(self) -> None:
        self._nth = 0

    def count(self, verb: str) -> OSError | None:
        if self._nth and (not self._verbs or verb in self._verbs):
            self.counted += 1
            if self.counted == self._nth:
                return OSError(self._code, f"injected into {verb}")
        return super().count(verb)


@dataclass
class Acknowledged:
    """What clients were told, and what they asked for."""

    records: dict[tuple[str, int], bytes] = field(default_factory=dict)
    """By topic and offset."""
    sent: set[bytes] = field(default_factory=set)
    committed: int = -1
    created: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)


class Client:
    """Sends one request after another, on a new connection if need be, and notes what is acknowledged."""

    def __init__(self, node: RunningNode, notes: Acknowledged) -> None:
        self.node = node
        self.notes = notes
        self._caller: Caller | None = None

    async def call(self, request, version):
        """The response; None if the node hung up."""
        try:
            if self._caller is None:
                self._caller = await self.node.caller()
            return await self._caller.call(request, version)
        except (asyncio.IncompleteReadError, ConnectionError):
            self._caller = None
            return None

    async def produce(self, topic: str, number: int) -> bool:
        value = b"%s %d" % (topic.encode(), number)
        self.notes.sent.add(value)
        request = produce_request(0, (topic, 0, value))
        record = Record(0, self.node.broker.clock.now_ms(), key_of(value), value)
        request.topic_data[0].partition_data[0].records = memoryview(build_batch([record]))
        answer = await self.call(request, 9)
        if answer is None:
            return False
        (partition,) = answer.responses[0].partition_responses
        if partition.error_code != ErrorCode.NONE:
            return False
        self.notes.records[topic, partition.base_offset] = value
        return True

    async def create(self, name: str, **configs: str) -> None:
        answer = await self.call(create_request(name, 1, **configs), 5)
        if answer is not None and answer.topics[0].error_code == ErrorCode.NONE:
            self.notes.created.add(name)

    async def delete(self, name: str) -> None:
        self.notes.created.discard(name)  # whether it exists is open until there is a response
        answer = await self.call(DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000), 5)
        if answer is not None and answer.responses[0].error_code == ErrorCode.NONE:
            self.notes.deleted.add(name)

    async def commit(self, offset: int) -> None:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topic = OffsetCommitRequestTopic(name="plain", partitions=[partition])
        answer = await self.call(OffsetCommitRequest(group_id="g", topics=[topic]), 7)
        if answer is not None and answer.topics[0].partitions[0].error_code == ErrorCode.NONE:
            self.notes.committed = offset

    async def committed(self) -> int:
        wanted = OffsetFetchRequestTopic(name="plain", partition_indexes=[0])
        answer = await self.call(OffsetFetchRequest(group_id="g", topics=[wanted]), 5)
        assert answer.error_code == ErrorCode.NONE
        offset: int = answer.topics[0].partitions[0].committed_offset
        return offset

    async def fetch(self, topic: str) -> dict[int, bytes] | None:
        """All records by offset; None if the node refuses."""
        found: dict[int, bytes] = {}
        position = 0
        while True:
            wanted = FetchPartition(partition=0, fetch_offset=position, partition_max_bytes=1 << 20)
            request = FetchRequest(
                max_bytes=1 << 20,
                session_epoch=-1,
                topics=[FetchTopic(topic=topic, partitions=[wanted])],
            )
            answer = await self.call(request, 11)
            if answer is None or answer.responses[0].partitions[0].error_code != ErrorCode.NONE:
                return None
            data = answer.responses[0].partitions[0].records
            if not data:
                return found
            for at, header in headers(data):
                for record in read_records(data, at, header):
                    found[record.offset] = bytes(record.value or b"")
                position = header.next_offset


async def prepare(client: Client) -> None:
    await client.create("plain", **SMALL)
    await client.create("compacted", **SMALL, cleanup_policy="compact", min_compaction_lag_ms="0")
    await client.create("unwanted")
    found = await client.call(FindCoordinatorRequest(key="g"), 3)
    assert found.error_code == ErrorCode.NONE
    await work(client, 0)
    assert client.notes.committed == ROUNDS - 1


async def work(client: Client, first: int) -> None:
    """What clients and the background do; each step may fail."""
    for number in range(first, first + ROUNDS):
        for topic in TOPICS:
            await client.produce(topic, number)
        await client.commit(number)
    housekeeping = Housekeeping(client.node.broker)
    for background in (
        housekeeping.delete_old_segments,
        housekeeping.compact,
        housekeeping.checkpoint,
    ):
        try:
            await background()
        except (ApiError, StorageError, OSError):
            pass
    for topic in TOPICS:
        assert_true(await client.fetch(topic), client.notes)


def assert_true(found: dict[int, bytes] | None, notes: Acknowledged) -> None:
    """Consumers see nothing that was not sent."""
    assert found is None or set(found.values()) <= notes.sent


def key_of(value: bytes) -> bytes:
    return b"key %d" % (int(value.split()[1]) % KEYS)


def assert_newest(found: dict[int, bytes], acknowledged: dict[int, bytes]) -> None:
    """Compaction leaves the newest record of each key, which may be one that was not acknowledged."""
    newest = {key_of(value): at for at, value in sorted(found.items())}
    for at, value in acknowledged.items():
        assert newest[key_of(value)] >= at, value


async def judge(files: FailingFiles, notes: Acknowledged) -> None:
    """After a power failure and a restart: everything acknowledged is there, and nothing false."""
    async with running_node(files, **SETTINGS) as node:
        assert [
            one.log.partition for one in node.broker.all_partitions() if one.log.quarantined
        ] == []
        client = Client(node, notes)
        for topic in TOPICS:
            found = await client.fetch(topic)
            assert found is not None
            assert_true(found, notes)
            expected = {at: value for (name, at), value in notes.records.items() if name == topic}
            if topic == "plain":
                assert {at: found.get(at) for at in expected} == expected
            else:
                assert {at: found.get(at, value) for at, value in expected.items()} == expected
                assert_newest(found, expected)
        assert await client.committed() >= notes.committed
        names = {hosted.topic.name for hosted in node.broker.topics()}
        assert notes.created <= names
        assert not notes.deleted & names


async def fail_at_work(nth: int, name: str) -> int:
    """Let the nth call of the work fail; returns how many calls there were."""
    files, notes = FailingFiles(nth), Acknowledged()
    async with running_node(files, **SETTINGS) as node:
        client = Client(node, notes)
        await prepare(client)
        files.arm(nth, name)
        await work(client, ROUNDS)
        await client.create("later")
        await client.delete("unwanted")
        files.disarm()
        if name != "EIO":
            await assert_it_passes(client)
        node.pull_the_plug(files)
    await judge(files, notes)
    return files.counted


async def assert_it_passes(client: Client) -> None:
    """A shortage is over: the node has taken no damage, and accepts everything again."""
    broker = client.node.broker
    assert not client.node.node.failed.done()
    assert broker.directory.offline is None
    assert [one.log.partition for one in broker.all_partitions() if one.log.quarantined] == []
    for topic in TOPICS:
        assert await client.produce(topic, 2 * ROUNDS)
    await client.create("after")
    assert "after" in client.notes.created


async def fail_at_start(nth: int, name: str) -> int:
    """Let the nth call of a start after a crash fail; returns how many calls there were."""
    files, notes = FailingFiles(nth), Acknowledged()
    async with running_node(files, **SETTINGS) as node:
        await prepare(Client(node, notes))
        node.pull_the_plug(files)
    files.arm(nth, name)
    try:
        async with running_node(files, **SETTINGS) as node:
            files.disarm()
            client = Client(node, notes)
            await work(client, ROUNDS)
            node.pull_the_plug(files)
    except (UserError, StorageError):
        files.disarm()
        files.crash()
    await judge(files, notes)
    return files.counted


PHASES = {"work": fail_at_work, "start": fail_at_start}


def run(phase: str, nth: int, name: str) -> int:
    return asyncio.run(asyncio.wait_for(PHASES[phase](nth, name), PATIENCE_S))


@pytest.mark.parametrize("name", FAILURES)
@pytest.mark.parametrize("phase", PHASES)
def test_nothing_acknowledged_is_lost_if_a_call_fails(phase, name):
    seed = int(os.environ.get("STROM_SEED", random.SystemRandom().randrange(2**32)))
    print(f"STROM_SEED={seed}")
    calls = run(phase, 10**9, name)
    assert calls > SAMPLES, "the node does touch the disk"
    for nth in random.Random(seed).sample(range(1, calls + 1), SAMPLES):
        print(f"call {nth} of {calls}")
        run(phase, nth, name)


@pytest.mark.soak
@pytest.mark.parametrize("name", FAILURES)
@pytest.mark.parametrize("phase", PHASES)
def test_nothing_acknowledged_is_lost_whichever_call_fails(phase, name):
    calls = run(phase, 10**9, name)
    for nth in range(1, calls + 1):
        print(f"call {nth} of {calls}")
        run(phase, nth, name)
