"""A topic that refuses messages of an exchange: publishers get a nack, nothing is lost or stuck."""

import asyncio
import errno
from typing import Any

import pytest

from strom.broker.queues import to_topic
from strom.model.errors import ErrorCode
from strom.model.retries import RetryPolicy
from strom.queues.delays import DELAY
from strom.testing.manual_clock import ManualClock
from strom.testing.memory_files import MemoryFiles
from tests.broker.queue_world import QueueWorld, queue_world

LARGE = bytes(3000)
TO_TOPIC = {"x_strom_to_topic": "t"}
TO_EXCHANGE = {"x_dead_letter_exchange": "x"}


async def reject_all(world: QueueWorld, queue: str = "q") -> None:
    found = world.vhost.queues[queue]
    while (got := found.get(world.clock.now_ms(), no_ack=False)) is not None:
        found.reject(got.position)


async def letters(world: QueueWorld, *bodies: bytes, **configs: Any) -> None:
    """Let messages of a queue become dead letters on their way into a topic."""
    await waiting(world, *bodies, **configs)
    await reject_all(world)


async def waiting(world: QueueWorld, *bodies: bytes, **configs: Any) -> None:
    await world.topic("t", **configs)
    await world.exchange("x", **TO_TOPIC)
    await world.queue("q", **TO_EXCHANGE)
    for body in bodies:
        world.publish(body, "q")
    await world.settled()


def test_a_dead_letter_that_is_too_large_stays_in_its_queue_until_the_topic_takes_it():
    async def test() -> None:
        async with queue_world() as world:
            await letters(world, LARGE, max_message_bytes="1000")
            await world.settled()
            assert (world.values("t"), world.live("q"), world.waiting("q")) == ([], 1, [])
            world.feed("x").retry()
            await world.settled()
            assert (world.values("t"), world.live("q")) == ([], 1)
            await world.broker.set_topic_configs("t", {})
            world.feed("x").retry()
            await world.settled()
            assert (world.values("t"), world.live("q")) == ([LARGE], 0)

    asyncio.run(test())


def test_a_dead_letter_that_is_too_large_is_in_its_queue_after_a_restart():
    async def test() -> None:
        files, clock = MemoryFiles(), ManualClock()
        async with queue_world(files, clock) as world:
            await letters(world, LARGE, max_message_bytes="1000")
            await world.settled()
        async with queue_world(files, clock) as world:
            assert world.waiting("q") == [LARGE]

    asyncio.run(test())


def test_dead_letters_survive_a_full_disk():
    async def test() -> None:
        async with queue_world() as world:
            await letters(world, b"1", b"2")
            world.files.fail(1, errno.ENOSPC, only="append", sticky=True)
            world.hub.turn.end()
            assert world.files.has_failed
            assert (world.values("t"), world.live("q")) == ([], 2)
            world.files.heal()
            world.feed("x").retry()
            await world.settled()
            assert (world.values("t"), world.live("q")) == ([b"1", b"2"], 0)

    asyncio.run(test())


def test_dead_letters_wait_for_a_topic_that_is_gone():
    async def test() -> None:
        async with queue_world() as world:
            await waiting(world, b"1")
            await world.broker.delete_topic("t")
            await reject_all(world)
            await world.settled()
            assert world.live("q") == 1
            await world.topic("t")
            world.feed("x").retry()
            await world.settled()
            assert (world.values("t"), world.live("q")) == ([b"1"], 0)

    asyncio.run(test())


def test_a_dead_letter_whose_sync_failed_is_not_written_twice(monkeypatch):
    monkeypatch.setattr(to_topic, "RETRY", RetryPolicy(first_s=0))

    async def test() -> None:
        async with queue_world() as world:
            await letters(world, b"1")
            world.hub.turn.end()
            world.broker.topic("t").partitions[0].fail(ErrorCode.KAFKA_STORAGE_ERROR)
            assert world.live("q") == 1
            async with asyncio.timeout(20):
                while world.live("q"):
                    await world.settled()
            assert world.values("t") == [b"1"]

    asyncio.run(test())


@pytest.mark.parametrize("flush", ["disk", "os"])
def test_a_power_cut_takes_no_dead_letter_in_flight_into_a_topic(flush):
    async def test(seed: int, turns: int) -> None:
        files, clock = MemoryFiles(seed), ManualClock()
        async with queue_world(files, clock) as world:
            await letters(world, b"1", b"2", flush=flush)
            for _ in range(turns):
                await asyncio.sleep(0)
            world.lose_power()
        async with queue_world(files, clock) as world:
            found = {*world.values("t"), *world.waiting("q")}
            assert {b"1", b"2"} <= found, f"seed {seed}"

    for seed in range(30):
        asyncio.run(test(seed, seed % 8))


def test_a_refused_dead_letter_is_not_repeated_to_those_who_took_it():
    async def test() -> None:
        async with queue_world() as world:
            await waiting(world, LARGE, max_message_bytes="1000")
            await world.queue("other", bound_to="x")
            await reject_all(world)
            await world.settled()
            for _ in range(3):
                world.feed("x").retry()
                await world.settled()
            assert world.waiting("other") == [LARGE]

    asyncio.run(test())


def test_refused_dead_letters_are_not_kept_in_memory():
    async def test() -> None:
        async with queue_world() as world:
            await letters(world, *[LARGE] * 5, max_message_bytes="1000")
            await world.settled()
            world.feed("x").retry()
            await world.settled()
            assert [item.record for item in world.feed("x")._backlog] == [None] * 5

    asyncio.run(test())


def test_a_dead_letter_whose_queue_is_deleted_is_retried_no_more():
    async def test() -> None:
        async with queue_world() as world:
            await letters(world, LARGE, max_message_bytes="1000")
            await world.settled()
            await world.declarations.delete_queue(world.vhost, world.vhost.queues["q"])
            await world.settled()
            world.feed("x").retry()
            assert not world.feed("x")._backlog

    asyncio.run(test())


def test_a_dead_letter_whose_exchange_is_deleted_is_dropped():
    async def test() -> None:
        async with queue_world() as world:
            await letters(world, LARGE, max_message_bytes="1000")
            await world.settled()
            await world.declarations.delete_exchange(world.vhost, "x", if_unused=False)
            await world.settled()
            assert world.live("q") == 0

    asyncio.run(test())


def test_a_delayed_message_stays_until_the_topic_takes_it():
    async def test() -> None:
        async with queue_world() as world:
            await world.topic("t", max_message_bytes="1000")
            await world.exchange("x", **TO_TOPIC)
            delayed = world.publish(LARGE, exchange="x", headers={DELAY: 5})
            await world.until(lambda: delayed.outcome)
            world.clock.advance(5)
            store = world.hub.delayed_of("/").store
            world.hub.delayed_of("/")._release()
            await world.settled()
            assert (world.values("t"), list(store.log.progress.acknowledged.live_before(1))) == (
                [],
                [0],
            )
            await world.broker.set_topic_configs("t", {})
            world.feed("x").retry()
            await world.settled()
            assert (world.values("t"), list(store.log.progress.acknowledged.live_before(1))) == (
                [LARGE],
                [],
            )

    asyncio.run(test())


def test_what_is_dead_or_due_at_a_restart_gets_into_the_topic():
    async def test() -> None:
        files, clock = MemoryFiles(), ManualClock()
        async with queue_world(files, clock) as world:
            await world.topic("t")
            await world.exchange("x", **TO_TOPIC)
            await world.queue("q", **TO_EXCHANGE, x_message_ttl=1000)
            world.publish(b"dead", "q")
            delayed = world.publish(b"due", exchange="x", headers={DELAY: 1000})
            await world.until(lambda: delayed.outcome)
            world.hub.delayed_of("/").stop()
        clock.advance(1001)
        async with queue_world(files, clock) as world:
            await world.until(lambda: sorted(map(str, world.values("t"))), ["b'dead'", "b'due'"])

    asyncio.run(test())


def test_one_message_that_is_too_large_does_not_refuse_its_neighbours():
    async def test() -> None:
        async with queue_world() as world:
            await world.topic("t", max_message_bytes="1000")
            await world.exchange("x", **TO_TOPIC)
            published = [world.publish(body, exchange="x") for body in (b"1", LARGE, b"2")]
            await world.settled()
            assert [one.outcome for one in published] == [True, False, True]
            assert world.values("t") == [b"1", b"2"]

    asyncio.run(test())


def test_messages_that_are_too_large_together_are_split():
    async def test() -> None:
        async with queue_world() as world:
            await world.topic("t", max_message_bytes="1000")
            await world.exchange("x", **TO_TOPIC)
            published = [world.publish(bytes(600), exchange="x") for _ in range(5)]
            await world.settled()
            assert [one.outcome for one in published] == [True] * 5

    asyncio.run(test())
