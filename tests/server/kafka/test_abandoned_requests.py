"""Clients that disconnect while their requests are handled: what goes on, and how much of it."""

import asyncio
import gc

import pytest

from strom.model.errors import ErrorCode
from strom.server.kafka import abandoned_requests, dispatch
from strom.server.kafka import long_work as slicing
from strom.server.kafka.abandoned_requests import AbandonedRequests
from strom.server.kafka.api import CloseCallbacks
from strom.server.kafka.handlers import k02_list_offsets, k19_create_topics
from strom.wire.kafka.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from strom.wire.kafka.messages.k03_metadata import MetadataRequest
from strom.wire.kafka.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from tests.server.kafka_calls import create_request, frame_of, running_node

MANY = 3000


def run(test):
    asyncio.run(asyncio.wait_for(test, 60))


def list_offsets():
    partitions = [ListOffsetsPartition(partition_index=at, timestamp=-1) for at in range(MANY)]
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=partitions)])


def create_many(prefix):
    topics = [
        CreatableTopic(name=f"{prefix}-{at}", num_partitions=1, replication_factor=1)
        for at in range(MANY)
    ]
    return CreateTopicsRequest(timeout_ms=1000, validate_only=True, topics=topics)


def large_request(name):
    """A request to create a topic that is large because it repeats a setting."""
    request = create_request(name, retention_ms="100000")
    request.topics[0].configs *= 99
    return request


@pytest.fixture
def tiny_slices(monkeypatch):
    monkeypatch.setattr(slicing, "SLICE_SECONDS", 0)


class HeldUp:
    """Creates no topic before it may; counts those that have begun."""

    def __init__(self, monkeypatch):
        self.begun = []
        self.may_go_on = asyncio.Event()
        self._create = k19_create_topics._create
        monkeypatch.setattr(k19_create_topics, "_create", self)

    async def __call__(self, topic, *rest):
        self.begun.append(topic.name)
        await self.may_go_on.wait()
        return await self._create(topic, *rest)


async def until(condition):
    while not condition():
        await asyncio.sleep(0.001)


def test_an_address_with_many_abandoned_requests_has_to_wait_with_further_ones(monkeypatch, served):
    monkeypatch.setattr(abandoned_requests, "MAX_ABANDONED", 2)

    async def test():
        held_up = HeldUp(monkeypatch)
        async with running_node() as node:
            callers = [await node.caller() for _ in range(8)]
            tasks = served[0].listener._tasks
            for at, caller in enumerate(callers[:2]):
                await caller.send(large_request(f"abandoned-{at}"), 5)
                await until(lambda at=at: len(held_up.begun) == at + 1)
                caller.leave()
            await until(lambda: len(served[0].listener.connections) == 6)
            gone, *waiting, small, other = callers[2:]
            await gone.send(large_request("gone"), 5)
            for at, caller in enumerate(waiting):
                await caller.send(large_request(f"waiting-{at}"), 5)
            await until(lambda: len(tasks) == 6)
            gone.leave()
            await until(lambda: len(tasks) == 5)
            assert (await other.call(MetadataRequest(topics=None), 9)).brokers
            assert held_up.begun == ["abandoned-0", "abandoned-1"]
            await small.send(create_request("small"), 5)
            await until(lambda: held_up.begun[2:] == ["small"])
            held_up.may_go_on.set()
            for caller in waiting:
                created = await caller.receive(create_request("waiting"), 5)
                assert created.topics[0].error_code == ErrorCode.NONE
            assert held_up.begun[3:] == ["waiting-0", "waiting-1", "waiting-2"]
            assert "gone" not in [hosted.topic.name for hosted in node.broker.topics()]

    run(test())


def test_abandoned_requests_delay_those_of_their_address_only(monkeypatch):
    monkeypatch.setattr(abandoned_requests, "MAX_ABANDONED", 1)

    async def test():
        requests, on_close, may_end = AbandonedRequests(), CloseCallbacks(), asyncio.Event()
        running = asyncio.create_task(may_end.wait())
        requests.watch(running, "a", on_close)
        await requests.wait("a", CloseCallbacks())
        on_close.call()
        await requests.wait("b", CloseCallbacks())
        waiting = [asyncio.create_task(requests.wait("a", CloseCallbacks())) for _ in range(3)]
        await asyncio.sleep(0.01)
        assert not any(one.done() for one in waiting)
        may_end.set()
        await asyncio.gather(*waiting)
        await asyncio.sleep(0)
        assert not requests._running
        assert not requests._waiting

    run(test())


def test_only_few_requests_that_take_long_to_decode_are_handled_at_a_time(tiny_slices, monkeypatch):
    monkeypatch.setattr(dispatch, "MAX_LONG", 1)

    async def test():
        held_up = HeldUp(monkeypatch)
        held_up.may_go_on.set()
        async with running_node() as node:
            callers = {name: await node.caller() for name in ("a", "b", "c")}
            for name, caller in callers.items():
                await caller.send(create_many(name), 4)
            for name, caller in callers.items():
                response = await caller.receive(create_many(name), 4)
                assert len(response.topics) == MANY
            order = [name[0] for name in held_up.begun]
            assert order == sorted(order)

    run(test())


def test_a_long_request_that_only_reads_ends_with_its_client(tiny_slices, monkeypatch, served):
    handled: list[None] = []
    partition = k02_list_offsets._partition

    def counting(*arguments):
        handled.append(None)
        return partition(*arguments)

    monkeypatch.setattr(k02_list_offsets, "_partition", counting)

    async def test():
        async with running_node() as node:
            caller = await node.caller()
            await caller.call(create_request("t", MANY), 5)
            await caller.send(list_offsets(), 5)
            await until(lambda: handled)
            caller.leave()
            await until(lambda: not served[0].listener._tasks)
            assert 0 < len(handled) < MANY

    run(test())


def test_what_a_malformed_request_has_made_is_not_left_to_the_garbage_collector(tiny_slices):
    async def test():
        async with running_node() as node:
            caller = await node.caller()
            await caller.call(MetadataRequest(topics=[]), 9)
            partitions = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
            topics = [ListOffsetsTopic(name="t" * 99, partitions=partitions)] * 1000
            frame = frame_of(ListOffsetsRequest(topics=topics), 5)[4:-20]  # the last is incomplete
            del partitions, topics
            gc.collect()
            gc.disable()
            try:
                caller.writer.write(len(frame).to_bytes(4, "big") + frame)
                assert await caller.is_closed()
                await asyncio.sleep(0.01)
                left = [one for one in gc.get_objects() if type(one) is ListOffsetsPartition]
            finally:
                gc.enable()
            assert left == []

    run(test())
