"""A queue reads its log in order and once, whether messages wait for the first time or came back."""

import asyncio

import pytest

from strom.broker.queues import message_log
from strom.broker.queues.message_properties import make_message
from strom.broker.queues.store import QueueStore
from strom.model.errors import ApiError, ErrorCode
from strom.queues.ready import FifoReady
from strom.storage.log_reader import LogReader
from strom.storage.log_reading import Chunk
from strom.testing.manual_clock import ManualClock
from strom.testing.memory_files import MemoryFiles
from strom.wire.amqp.content import BasicProperties, encode_properties
from strom.wire.kafka.records import read_records
from tests.broker.queues.test_power_loss_of_dead_letters import World, queues

MESSAGES = 2000
BODY = bytes(200)


@pytest.fixture
def decoded(monkeypatch):
    """How many records of logs were decoded."""
    count = [0]

    def counting(data, at, header):
        count[0] += header.record_count
        return read_records(data, at, header)

    monkeypatch.setattr(message_log, "read_records", counting)
    return count


def run(test):
    asyncio.run(asyncio.wait_for(test(), 60))


async def fill(world: World, name: str = "q") -> None:
    world.hub.stores.memory.each = 256 * 1024  # less than a quarter of what will wait
    for _ in range(MESSAGES // 50):
        assert await world.publish(name, *[BODY] * 50)


def take_all(world: World) -> list[int]:
    queue = world.queue("q")
    taken = iter(lambda: queue.get(world.clock.now_ms(), no_ack=False), None)
    return [got.position for got in taken]


def test_what_came_back_is_read_once(decoded):
    async def test():
        async with queues(MemoryFiles(), ManualClock()) as world:
            await world.declare("q")
            await fill(world)
            positions = take_all(world)
            decoded[0] = 0
            world.queue("q").requeue(positions)
            assert decoded[0] == 0
            assert take_all(world) == positions
            assert decoded[0] < 4 * MESSAGES

    run(test)


def test_a_long_queue_is_read_once_while_new_messages_fill_the_memory(decoded):
    async def test():
        async with queues(MemoryFiles(), ManualClock()) as world:
            await world.declare("q")
            await fill(world)
            queue, now_ms = world.queue("q"), world.clock.now_ms()
            decoded[0] = 0
            for number in range(MESSAGES):
                queue.get(now_ms, no_ack=True)
                if number % 50 == 0:
                    assert await world.publish("q", *[BODY] * 50)
            assert decoded[0] < 4 * MESSAGES

    run(test)


async def consume_before_writing(world: World) -> None:
    """Let only the first and the last message of many be in the log."""
    await world.declare("q")
    assert await world.publish("q", b"first")
    assert world.queue("q").get(world.clock.now_ms(), no_ack=False)
    for _ in range(MESSAGES):
        world.hub.publish(world.vhost, transient(world.clock), None)
        assert world.queue("q").get(world.clock.now_ms(), no_ack=True)
    assert await world.publish("q", b"last")


def test_positions_that_were_never_written_do_not_wait_after_a_restart():
    async def test():
        files, clock = MemoryFiles(), ManualClock()
        async with queues(files, clock) as world:
            await consume_before_writing(world)
            await world.synced()
        async with queues(files, clock) as world:
            assert world.queue("q").waiting == 2
            assert world.bodies("q") == [b"first", b"last"]

    run(test)


def test_positions_that_were_never_written_are_not_looked_for_one_by_one(decoded):
    async def test():
        async with queues(MemoryFiles(), ManualClock()) as world:
            await consume_before_writing(world)
            store, ready = world.queue("q").store, world.queue("q").ready
            assert isinstance(store, QueueStore)
            assert isinstance(ready, FifoReady)
            store.log.progress.acknowledged.cut(0)  # as after a crash that took the note of it
            ready.restore(store.log.progress.acknowledged, delivered=0, end=MESSAGES + 2)
            decoded[0] = 0
            assert world.bodies("q") == [b"first", b"last"]
            assert decoded[0] < 10

    run(test)


def transient(clock):
    properties = encode_properties(BasicProperties())
    return make_message("", "q", properties, b"transient", clock.now_ms())


def test_a_shortage_while_reading_hides_no_message_and_holds_up_no_publisher(monkeypatch):
    def refuse(*_: object, **__: object) -> Chunk:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "Cannot read: Too many open files.")

    async def test():
        files, clock = MemoryFiles(), ManualClock()
        async with queues(files, clock) as world:
            await world.declare("q")
            assert await world.publish("q", b"1", b"2")
        async with queues(files, clock) as world:
            queue = world.queue("q")
            assert isinstance(queue.store, QueueStore)
            queue.store.cache.drop(0)
            with monkeypatch.context() as patch:
                patch.setattr(LogReader, "read", refuse)
                assert queue.get(clock.now_ms(), no_ack=False) is None
            assert queue.waiting == 2
            assert world.hub.block.reason is None
            assert world.bodies("q") == [b"1", b"2"]

    run(test)
