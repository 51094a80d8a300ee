"""A node that starts on a full disk serves what it has, and takes writes when there is space."""

import asyncio
import errno
import logging

from strom.broker import housekeeping
from strom.model.errors import ErrorCode
from strom.model.retries import RetryPolicy
from strom.storage import shortage
from strom.testing import ManualClock, MemoryFiles
from strom.wire.kafka.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from strom.wire.kafka.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from strom.wire.kafka.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.server.kafka_calls import create_request, produce_request, running_node

NOW = ManualClock().now_ms()
PRODUCE, FETCH, COMMIT, OFFSETS, CREATE = 9, 11, 7, 5, 5


def run(test):
    asyncio.run(asyncio.wait_for(test, 20))


def produced(response) -> int:
    return int(response.responses[0].partition_responses[0].error_code)


async def committed(caller) -> tuple[int, int]:
    topic = OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    answer = await caller.call(OffsetFetchRequest(group_id="g", topics=[topic]), OFFSETS)
    found = answer.topics[0].partitions[0]
    return found.error_code, found.committed_offset


def commit_request(offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
    return OffsetCommitRequest(group_id="g", topics=[topic])


async def fetched_bytes(caller) -> tuple[int, int]:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic="t", partitions=[partition])],
    )
    answer = (await caller.call(request, FETCH)).responses[0].partitions[0]
    return answer.error_code, len(answer.records or b"")


async def fill(files: MemoryFiles) -> int:
    """Records, a group's offset, and a process that is killed; how many bytes a fetch gives."""
    async with running_node(files, offsets_topic_num_partitions=1) as node:
        caller = await node.caller()
        await caller.call(create_request("t"), CREATE)
        for _ in range(3):
            assert produced(await caller.call(produce_request(NOW, ("t", 0, b"1")), PRODUCE)) == 0
        await node.node._groups.topic.ensure()
        answer = await caller.call(commit_request(2), COMMIT)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        _, size = await fetched_bytes(caller)
        node.broker.directory.fail(OSError("killed"))
    files.kill()
    return size


def lines(caplog, level: int) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == shortage.__name__ and record.levelno == level
    ]


def test_it_is_read_only_until_there_is_space(caplog, monkeypatch):
    monkeypatch.setattr(housekeeping, "METADATA_RETRY_MS", 20)
    monkeypatch.setattr(shortage, "QUIET_SECONDS", 0.1)
    caplog.set_level(logging.INFO)
    request = produce_request(NOW, ("t", 0, b"2"))

    async def test():
        files = MemoryFiles()
        size = await fill(files)
        caplog.clear()
        files.fail(1, errno.ENOSPC, only="append", sticky=True)
        async with running_node(files, recovery_point_interval_ms=50) as node:
            caller = await node.caller()
            assert await fetched_bytes(caller) == (ErrorCode.NONE, size)
            assert await committed(caller) == (ErrorCode.NONE, 2)
            for _ in range(3):
                answer = await caller.call(request, PRODUCE)
                assert produced(answer) == ErrorCode.KAFKA_STORAGE_ERROR
            refused = await caller.call(commit_request(3), COMMIT)
            assert refused.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
            assert len(lines(caplog, logging.ERROR)) == 1
            assert not [log for log in node.broker.all_logs() if log.quarantined]
            epoch = node.broker.metadata.leader_epoch
            files.heal()
            while produced(await caller.call(request, PRODUCE)):
                await asyncio.sleep(0.02)
            while not lines(caplog, logging.INFO):
                await asyncio.sleep(0.02)
            assert len(lines(caplog, logging.ERROR)) == len(lines(caplog, logging.INFO)) == 1
            accepted = await caller.call(commit_request(3), COMMIT)
            assert accepted.topics[0].partitions[0].error_code == ErrorCode.NONE
        async with running_node(files) as node:
            assert node.broker.directory.was_clean
            assert node.broker.metadata.leader_epoch == epoch
            caller = await node.caller()
            code, size_after = await fetched_bytes(caller)
            assert (code, await committed(caller)) == (ErrorCode.NONE, (ErrorCode.NONE, 3))
            assert size_after > size

    run(test())


def test_a_stop_before_there_is_space_is_not_taken_for_a_clean_one():
    async def test():
        files = MemoryFiles()
        size = await fill(files)
        for _ in range(2):
            files.fail(1, errno.ENOSPC, only="append", sticky=True)
            async with running_node(files) as node:
                assert await fetched_bytes(await node.caller()) == (ErrorCode.NONE, size)
        files.heal()
        async with running_node(files) as node:
            assert not node.broker.directory.was_clean
            caller = await node.caller()
            answer = await caller.call(produce_request(NOW, ("t", 0, b"2")), PRODUCE)
            assert produced(answer) == ErrorCode.NONE

    run(test())


def test_nothing_is_written_in_a_leader_epoch_that_is_not_on_disk(monkeypatch):
    monkeypatch.setattr(housekeeping, "METADATA_RETRY_MS", 600_000)
    request = produce_request(NOW, ("t", 0, b"2"))

    async def test():
        files = MemoryFiles()
        await fill(files)
        files.fail(1, errno.ENOSPC, only="append", sticky=True)
        async with running_node(files) as node:
            files.heal()
            caller = await node.caller()
            assert produced(await caller.call(request, PRODUCE)) == ErrorCode.KAFKA_STORAGE_ERROR
            await caller.call(create_request("other"), CREATE)  # any change takes it along
            assert produced(await caller.call(request, PRODUCE)) == ErrorCode.NONE

    run(test())


def test_a_change_to_the_metadata_waits_out_a_shortage_of_descriptors(monkeypatch):
    async def test():
        files = MemoryFiles()
        async with running_node(files, recovery_point_interval_ms=3_600_000) as node:
            caller = await node.caller()
            await caller.call(create_request("first"), CREATE)
            log = node.broker._metadata_log.partition.log
            log._unflushed._entries_version += 1  # so that its folder is to be synced
            calls = files.calls["open_directory"]
            made = 2  # by the creation of the partition
            files.fail(made + 1, errno.EMFILE, only="open_directory")
            answer = await caller.call(create_request("second"), CREATE)
            assert answer.topics[0].error_code == ErrorCode.NONE
            assert files.has_failed
            assert files.calls["open_directory"] == calls + made + 2
            assert not node.node.failed.done()

    monkeypatch.setattr("strom.broker.metadata_log.RETRY", RetryPolicy(first_s=0.02))
    run(test())
