"""A disk that fails under a running node: nobody is told a lie, and the node ends."""

import asyncio
import errno
import threading

import pytest

from strom.model.errors import ErrorCode
from strom.testing import ManualClock, MemoryFiles
from strom.wire.kafka.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from strom.wire.kafka.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.server.kafka_calls import create_request, produce_request, running_node

NOW = ManualClock().now_ms()
PRODUCE = 9
FETCH = 11


def run(test):
    asyncio.run(asyncio.wait_for(test, 60))


def codes(response) -> list[int]:
    return [
        partition.error_code
        for topic in response.responses
        for partition in topic.partition_responses
    ]


def fetch_request(topic: str, max_wait_ms: int = 0) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
                ],
            )
        ],
    )


class SlowDisk(MemoryFiles):
    """Syncs only when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.may_sync = threading.Event()
        self.may_sync.set()

    def count(self, verb: str) -> OSError | None:
        if verb == "datasync":
            assert self.may_sync.wait(30)
        return super().count(verb)


def test_nothing_is_answered_before_the_sync_has_returned():
    async def test():
        files = SlowDisk()
        async with running_node(files) as node:
            caller, other = await node.caller(), await node.caller()
            await caller.call(create_request("t"), 5)
            files.may_sync.clear()
            request = produce_request(NOW, ("t", 0, b"1"))
            await caller.send(request, PRODUCE)
            answer = asyncio.create_task(caller.receive(request, PRODUCE))
            await asyncio.sleep(0.1)
            assert not answer.done()
            fetched = await other.call(fetch_request("t"), FETCH)
            assert not fetched.responses[0].partitions[0].records, "a reader saw what may be lost"
            files.may_sync.set()
            assert codes(await answer) == [ErrorCode.NONE]

    run(test())


@pytest.mark.parametrize("order", [("quick", "durable"), ("durable", "quick")])
def test_a_request_waits_for_its_slowest_partition(order):
    async def test():
        files = SlowDisk()
        async with running_node(files) as node:
            caller = await node.caller()
            await caller.call(create_request("quick", flush="os"), 5)
            await caller.call(create_request("durable"), 5)
            files.may_sync.clear()
            request = produce_request(NOW, *[(topic, 0, b"1") for topic in order])
            await caller.send(request, PRODUCE)
            answer = asyncio.create_task(caller.receive(request, PRODUCE))
            await asyncio.sleep(0.1)
            assert not answer.done(), "answered although one partition is not on disk"
            files.may_sync.set()
            assert codes(await answer) == [ErrorCode.NONE] * 2

    run(test())


def test_one_sync_serves_many_waiting_requests():
    async def test():
        files = SlowDisk()
        async with running_node(files) as node:
            callers = [await node.caller() for _ in range(10)]
            await callers[0].call(create_request("t"), 5)
            files.may_sync.clear()
            before = files.calls["datasync"]
            request = produce_request(NOW, ("t", 0, b"1"))
            for caller in callers:
                for _ in range(10):
                    await caller.send(request, PRODUCE)
            await asyncio.sleep(0.2)
            files.may_sync.set()
            for caller in callers:
                for _ in range(10):
                    assert codes(await caller.receive(request, PRODUCE)) == [ErrorCode.NONE]
            assert files.calls["datasync"] - before <= 4

    run(test())


@pytest.mark.parametrize("verb", ["datasync", "append"])
def test_an_input_output_error_is_reported_to_producers_and_ends_the_node(verb):
    async def test():
        files = MemoryFiles()
        async with running_node(files) as node:
            caller, other = await node.caller(), await node.caller()
            for name in ("a", "b"):
                await caller.call(create_request(name), 5)
            request = produce_request(NOW, ("a", 0, b"1"), ("b", 0, b"2"))
            assert codes(await caller.call(request, PRODUCE)) == [ErrorCode.NONE] * 2
            waiting = fetch_request("a", max_wait_ms=30_000)
            waiting.topics[0].partitions[0].fetch_offset = 1
            await other.send(waiting, FETCH)
            await asyncio.sleep(0.05)
            files.fail(1, errno.EIO, only=verb)
            answer = await caller.call(request, PRODUCE)
            assert codes(answer) == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
            await asyncio.wait_for(node.node.failed, 10)
            syncs = files.calls["datasync"]
            answer = await caller.call(request, PRODUCE)
            assert codes(answer) == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
            fetched = await other.receive(waiting, FETCH)
            error = fetched.responses[0].partitions[0].error_code
            assert error == ErrorCode.KAFKA_STORAGE_ERROR
            assert files.calls["datasync"] == syncs, "a failed sync is never tried again"

    run(test())


@pytest.mark.parametrize("seed", range(5))
def test_after_a_failed_sync_a_restart_has_what_was_acknowledged(seed):
    async def test():
        files = MemoryFiles(seed)
        acknowledged = 0
        async with running_node(files) as node:
            caller = await node.caller()
            await caller.call(create_request("t"), 5)
            request = produce_request(NOW, ("t", 0, b"1"))
            for _ in range(5):
                assert codes(await caller.call(request, PRODUCE)) == [ErrorCode.NONE]
                acknowledged += 1
            files.fail(1, errno.EIO, only="datasync")
            await caller.call(request, PRODUCE)
        files.crash()
        async with running_node(files) as node:
            caller = await node.caller()
            question = ListOffsetsRequest(
                topics=[
                    ListOffsetsTopic(
                        name="t",
                        partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)],
                    )
                ]
            )
            answer = await caller.call(question, 5)
            assert answer.topics[0].partitions[0].offset in (acknowledged, acknowledged + 1)

    run(test())


@pytest.mark.parametrize("nth", range(1, 40, 3))
def test_a_topic_creation_that_meets_an_error_is_never_answered_with_success(nth):
    async def test():
        files = MemoryFiles()
        async with running_node(files) as node:
            caller = await node.caller()
            await caller.call(create_request("first"), 5)
            files.fail(nth, errno.EIO)
            request = create_request("second", 3)
            await caller.send(request, 5)
            try:
                answer = await caller.receive(request, 5)
                created = answer.topics[0].error_code == ErrorCode.NONE
            except (asyncio.IncompleteReadError, ConnectionError):
                created = False
            failed = files.has_failed
            files.heal()
            if failed and not created:
                await asyncio.wait_for(node.node.failed, 10)
            node.pull_the_plug(files)
        async with running_node(files) as node:
            names = [each.topic.name for each in node.broker.topics()]
            assert "first" in names
            assert not created or "second" in names

    run(test())
