"""tx.commit is applied as a whole or not at all, whatever the disk refuses, and strands no message."""

import asyncio
import errno
from collections.abc import Callable

import pika
import pytest

from strom.broker.queues.staging import StagedMessages
from strom.model.errors import ErrorCode
from strom.queues.arguments import QueueRules
from strom.queues.definitions import Binding
from strom.queues.errors import QueueError
from strom.server.amqp.channel import Channel
from strom.server.amqp.handlers import basic_class, channel_class
from strom.testing.manual_clock import ManualClock
from strom.testing.memory_files import MemoryFiles
from strom.wire.amqp.content import BasicProperties, encode_properties
from strom.wire.amqp.methods import basic, tx
from strom.wire.amqp.protocol import AmqpError
from tests.broker.queue_world import QueueWorld, queue_world
from tests.conformance_amqp.asking import PERSISTENT, bodies, closes_channel, count
from tests.server.amqp.in_process import Clients, connection_of, disconnect

PROPERTIES = encode_properties(BasicProperties(delivery_mode=2))
TARGETS = {"one": [b"a"], "two": [b"b", b"c"]}
"""What the transaction publishes; it acknowledges the only message of the queue `source`."""


def open_channel(world: QueueWorld) -> Channel:
    return Clients(world).channel()


async def begin(world: QueueWorld) -> Channel:
    """A channel with a transaction that only has to be committed."""
    for name in (*TARGETS, "source"):
        await world.queue(name)
    world.publish(b"work", "source")
    await world.settled()
    channel = open_channel(world)
    channel_class.select_transactions(channel, tx.Select())
    for key, published in TARGETS.items():
        for body in published:
            channel.publisher.publish(basic.Publish(exchange="", routing_key=key), PROPERTIES, body)
    assert basic_class.get(channel, basic.Get(queue="source")) is None
    assert channel.acknowledge(1, False) is None
    return channel


async def warm_up(world: QueueWorld) -> None:
    """Have a transaction before, so that the log of transactions is there."""
    await world.queue("warm")
    channel = open_channel(world)
    channel_class.select_transactions(channel, tx.Select())
    channel.publisher.publish(basic.Publish(exchange="", routing_key="warm"), PROPERTIES, b"warm")
    assert await commit(world, channel)


async def commit(world: QueueWorld, channel: Channel) -> bool:
    """Commit as a connection does; whether it was done."""
    work = asyncio.ensure_future(channel_class.commit(channel, tx.Commit()))
    async with asyncio.timeout(10):
        while not work.done():
            await world.settled()
    try:
        work.result()
    except (AmqpError, QueueError) as error:
        connection_of(channel).fail(error, 1)
        return False
    return True


def outcome(world: QueueWorld) -> dict[str, list[bytes]]:
    return {name: world.waiting(name) for name in (*TARGETS, "source")}


APPLIED = {**TARGETS, "source": []}
NOT_APPLIED = {"one": [], "two": [], "source": [b"work"]}


def refused_append(world: QueueWorld, nth: int) -> None:
    world.files.fail(nth, errno.ENOSPC, only="append")


def full_disk(world: QueueWorld, nth: int) -> None:
    world.files.fail(nth, errno.ENOSPC, only="append", sticky=True)


def no_room_for_a_file(world: QueueWorld, nth: int) -> None:
    world.files.fail(nth, errno.ENOSPC, only="open")


@pytest.mark.parametrize("refuse", [refused_append, full_disk, no_room_for_a_file])
def test_a_commit_that_the_disk_refuses_at_any_step_is_applied_as_a_whole_or_not_at_all(refuse):
    async def test(nth: int, seed: int) -> bool:
        files, clock = MemoryFiles(seed), ManualClock()
        async with queue_world(files, clock) as world:
            channel = await begin(world)
            refuse(world, nth)
            done = await commit(world, channel)
            was_met = files.has_failed
            files.heal()
            world.hub.turn._retry()
            await world.settled()
            if not done:
                assert outcome(world) == NOT_APPLIED, f"step {nth}"
                await world.settled()
            else:
                await world.settled()
                world.lose_power()
        async with queue_world(files, clock) as world:
            await world.settled()
            found = outcome(world)
            if done:
                for name, published in TARGETS.items():
                    assert set(published) <= set(found[name]), f"step {nth}"
            else:
                assert (found["one"], found["two"]) == ([], []), f"step {nth}"
        return was_met

    steps = 0
    while asyncio.run(test(steps + 1, steps)):
        steps += 1
        assert steps < 50
    assert steps > 1


def test_a_commit_whose_sync_is_refused_is_not_applied():
    async def test() -> None:
        async with queue_world() as world:
            await warm_up(world)
            channel = await begin(world)
            work = asyncio.ensure_future(channel_class.commit(channel, tx.Commit()))
            await asyncio.sleep(0)
            world.hub.turn.end()
            store = world.hub.delayed_of("/").store
            assert store.log.topic is not None
            store.log.topic.partitions[0].fail(ErrorCode.KAFKA_STORAGE_ERROR)
            with pytest.raises(AmqpError) as refused:
                await work
            connection_of(channel).fail(refused.value, 1)
            await world.settled()
            assert outcome(world) == NOT_APPLIED

    asyncio.run(test())


@pytest.mark.parametrize("turns", range(1, 12))
def test_a_commit_whose_client_leaves_meanwhile_is_applied_as_a_whole_or_not_at_all(turns):
    async def test() -> None:
        async with queue_world() as world:
            await warm_up(world)
            channel = await begin(world)
            work = asyncio.ensure_future(channel_class.commit(channel, tx.Commit()))
            for _ in range(turns):
                await asyncio.sleep(0)
            disconnect(channel)
            await asyncio.wait([work])
            done = work.exception() is None
            await world.settled()
            assert outcome(world) == (APPLIED if done else NOT_APPLIED)

    asyncio.run(test())


def test_a_power_cut_during_a_commit_leaves_all_of_it_or_nothing():
    async def test(seed: int) -> bool:
        files, clock = MemoryFiles(seed), ManualClock()
        async with queue_world(files, clock) as world:
            await warm_up(world)
            channel = await begin(world)
            work = asyncio.ensure_future(channel_class.commit(channel, tx.Commit()))
            for _ in range(seed % 20):
                await asyncio.sleep(0.0005 if seed % 3 else 0)
            if seed % 5 == 4:
                await asyncio.wait([work])
            done = work.done()
            world.lose_power()
            work.cancel()
        async with queue_world(files, clock) as world:
            await world.settled()
            found = outcome(world)
            published = {*found["one"], *found["two"]}
            assert published in (set(), {b"a", b"b", b"c"}), f"seed {seed}"
            if done:
                assert published, f"seed {seed}"
            assert published or found["source"], f"seed {seed}"
        return bool(published)

    assert {asyncio.run(test(seed)) for seed in range(60)} == {True, False}


def test_consumers_see_nothing_of_a_commit_before_it_is_durable():
    async def test() -> None:
        async with queue_world() as world:
            channel = await begin(world)
            work = asyncio.ensure_future(channel_class.commit(channel, tx.Commit()))
            seen_early = False
            while not work.done():
                await asyncio.sleep(0)
                visible = any(world.vhost.queues[name].waiting for name in TARGETS)
                store = world.hub.delayed_of("/").store
                durable = store.log.topic is not None and (
                    store.log.topic.partitions[0].log.flushed_offset == 3
                )
                seen_early = seen_early or (visible and not durable)
            assert not seen_early
            assert outcome(world) == APPLIED

    asyncio.run(test())


def test_a_transaction_leaves_nothing_behind_in_its_log():
    async def test() -> None:
        files, clock = MemoryFiles(), ManualClock()
        async with queue_world(files, clock) as world:
            assert await commit(world, await begin(world))
            await world.settled()
        async with queue_world(files, clock) as world:
            await world.settled()
            assert outcome(world) == APPLIED

    asyncio.run(test())


@pytest.mark.parametrize("delay", [None, 0, -5])
def test_what_was_committed_before_a_crash_is_published_as_it_is(delay):
    async def test() -> None:
        files, clock = MemoryFiles(), ManualClock()
        async with queue_world(files, clock) as world:
            queue = await world.queue("q", x_max_length=0, x_overflow="reject-publish")
            await world.queue("other")
            headers = None if delay is None else {"x-delay": delay}
            staged = StagedMessages(
                world.hub, world.vhost, [world.message(b"1", "other", "", headers)]
            )
            durable: list[bool] = []
            staged.write(durable.append)
            await world.until(lambda: durable, [True])
            binding = Binding("/", "amq.fanout", "queue", "q")
            await world.declarations.bind(world.vhost, binding)
            message = world.message(b"2", "", "amq.fanout", headers)
            queue.rules = QueueRules()  # it has room when the transaction is checked
            StagedMessages(world.hub, world.vhost, [message]).write(durable.append)
            await world.until(lambda: durable, [True, True])
            world.lose_power()
        async with queue_world(files, clock) as world:
            await world.until(lambda: world.vhost.queues["q"].waiting, 1)
            for name, body in (("other", b"1"), ("q", b"2")):
                got = world.vhost.queues[name].get(clock.now_ms(), no_ack=True)
                assert got is not None
                assert (got.message.body, got.message.headers) == (body, headers)

    asyncio.run(test())


# --- through a client ----------------------------------------------------------------------------


@pytest.fixture
def working(connect: Callable[[], pika.BlockingConnection]):
    """A channel in a transaction that has published to `ok` and acknowledged the message of `work`."""
    channel = connect().channel()
    for name in ("ok", "work"):
        channel.queue_declare(name, durable=True)
    channel.basic_publish("", "work", b"job", PERSISTENT)
    channel.tx_select()
    channel.basic_publish("", "ok", b"1", PERSISTENT)
    channel.basic_ack(channel.basic_get("work")[0].delivery_tag)
    return channel


def nothing_happened(connect) -> None:
    channel = connect().channel()
    assert count(channel, "ok") == 0
    assert bodies(channel, "work") == [b"job"]


def test_a_full_queue_that_rejects_refuses_the_whole_transaction(connect, working):
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    working.queue_declare("full", arguments=arguments)
    working.basic_publish("", "full", b"1")
    working.basic_publish("", "full", b"2")
    with closes_channel(406):
        working.tx_commit()
    nothing_happened(connect)
    assert count(connect().channel(), "full") == 0


def test_a_topic_that_refuses_a_message_refuses_the_whole_transaction(connect, working):
    working.exchange_declare("x", "fanout", arguments={"x-strom-to-topic": "t"})
    working.basic_publish("x", "", bytes(3 << 20))
    with closes_channel(406):
        working.tx_commit()
    nothing_happened(connect)


@pytest.mark.parametrize("headers", [{"x-delay": "soon"}, {"CC": "not a list"}])
def test_a_message_that_cannot_be_routed_refuses_the_whole_transaction(connect, working, headers):
    working.basic_publish("", "ok", b"2", pika.BasicProperties(headers=headers))
    with closes_channel(406):
        working.tx_commit()
    nothing_happened(connect)


def test_an_exchange_that_is_gone_refuses_the_whole_transaction(connect, working):
    working.exchange_declare("x", "fanout")
    working.basic_publish("x", "", b"2")
    connect().channel().exchange_delete("x")
    with closes_channel(404):
        working.tx_commit()
    nothing_happened(connect)


def test_delayed_messages_of_a_transaction_wait_from_its_commit_on(connect, working):
    later = pika.BasicProperties(delivery_mode=2, headers={"x-delay": 10**9})
    working.basic_publish("", "ok", b"later", later)
    working.tx_commit()
    channel = connect().channel()
    assert (bodies(channel, "ok"), bodies(channel, "work")) == ([b"1"], [])
