"""A topic that feeds an exchange: no record stops it, no target holds up others, no topic is missed."""

import asyncio
from typing import Any

import pytest

from strom.broker.dead_letters import PREFIX
from strom.broker.queues import from_topic
from strom.broker.queues.from_topic import PartitionReader
from strom.model.errors import ApiError, ErrorCode
from strom.model.retries import RetryPolicy
from strom.queues.definitions import Cursor
from strom.queues.errors import QueueError
from strom.queues.message import Message
from strom.testing.manual_clock import ManualClock
from strom.testing.memory_files import MemoryFiles
from strom.wire.kafka.batch import headers
from strom.wire.kafka.records import Record, read_records
from tests.broker.queue_world import QueueWorld, queue_world

FROM_TOPIC = {"x_strom_from_topic": "t"}
FULL: dict[str, Any] = {"x_max_length": 2, "x_overflow": "reject-publish"}


async def joined(world: QueueWorld, **arguments: Any) -> None:
    """A topic `t` that feeds the exchange `x` with the queue `q`."""
    await world.topic("t")
    await world.exchange("x", **FROM_TOPIC, **arguments)
    await world.queue("q", bound_to="x")


def reader(world: QueueWorld, partition: int = 0) -> PartitionReader:
    return world.hub.bridges._joined[world.vhost.exchanges["x"]].reader._readers[partition]


def letters(world: QueueWorld, topic: str = "dlq.t") -> list[Record]:
    hosted = world.broker.find_topic(topic)
    if hosted is None:
        return []
    data = hosted.partitions[0].log.reader.read(0, 1 << 20).data
    return [one for at, header in headers(data) for one in read_records(data, at, header)]


def refuse(*_: object, **__: object) -> Any:
    raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)


# --- bad records -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [
        ("x-delay", b"abc"),
        ("x-delay", b"9" * 100),
        ("x-delay", b"\xff"),
        ("x-delay", None),
        ("CC", b"abc"),
        ("BCC", None),
        ("large", bytes(200_000)),
    ],
)
def test_a_bad_record_goes_to_a_dead_letter_topic_and_the_others_go_on(header):
    async def test() -> None:
        files, clock = MemoryFiles(), ManualClock()
        async with queue_world(files, clock) as world:
            await joined(world)
            world.produce("t", b"1")
            world.produce("t", b"bad", key=b"k", headers=(("h", b"v"), header))
            world.produce("t", b"2")
            await world.until(lambda: len(letters(world)), 1)
            await world.until(lambda: reader(world).position, 3)
            await world.until(lambda: reader(world).lagging, {})
        async with queue_world(files, clock) as world:
            world.produce("t", b"3")
            await world.until(lambda: reader(world).position, 4)
            assert world.waiting("q") == [b"1", b"2", b"3"]
            [letter] = letters(world)
            assert (letter.key, letter.value) == (b"k", b"bad")
            assert letter.headers[:2] == (("h", b"v"), header)
            notes = {name.removeprefix(PREFIX): value for name, value in letter.headers[2:]}
            assert notes.pop("message")
            assert notes == {"topic": b"t", "partition": b"0", "offset": b"1", "exchange": b"x"}

    asyncio.run(test())


def test_a_record_larger_than_a_message_may_be_goes_to_the_dead_letter_topic():
    async def test() -> None:
        async with queue_world(amqp_max_message_bytes="10") as world:
            await joined(world)
            world.produce("t", b"1", bytes(11), b"2")
            await world.until(lambda: [one.value for one in letters(world)], [bytes(11)])
            await world.until(lambda: world.vhost.queues["q"].waiting, 2)

    asyncio.run(test())


def test_the_dead_letter_topic_takes_every_record_the_source_took():
    async def test() -> None:
        async with queue_world(amqp_max_message_bytes="10") as world:
            await world.topic("t", max_message_bytes="3000000")
            await world.exchange("x", **FROM_TOPIC)
            world.produce("t", bytes(2_900_000))
            await world.until(lambda: len(letters(world)), 1)

    asyncio.run(test())


def test_the_dead_letter_topic_can_be_chosen():
    async def test() -> None:
        async with queue_world() as world:
            await joined(world, x_strom_dead_letter_topic="bad")
            world.produce("t", b"1", headers=(("CC", b"k"),))
            await world.until(lambda: len(letters(world, "bad")), 1)

    asyncio.run(test())


@pytest.mark.parametrize("name", [7, "t", "not a name!", "__consumer_offsets"])
def test_a_dead_letter_topic_that_cannot_be_is_refused(name):
    async def test() -> None:
        async with queue_world() as world:
            with pytest.raises(QueueError):
                await world.exchange("x", **FROM_TOPIC, x_strom_dead_letter_topic=name)

    asyncio.run(test())


def test_a_dead_letter_that_the_disk_refuses_is_retried(monkeypatch):
    async def test() -> None:
        async with queue_world() as world:
            await joined(world)
            topic = await world.topic("dlq.t")
            feed = world.hub.bridges._joined[world.vhost.exchanges["x"]].letters.feed
            with monkeypatch.context() as full:
                full.setattr(topic.partitions[0], "append", refuse)
                world.produce("t", b"bad", headers=(("CC", b"k"),))
                await world.until(lambda: len(feed._backlog), 1)
                assert min(reader(world).position, *reader(world).lagging.values(), 1) == 0
            feed.retry()
            await world.until(lambda: (reader(world).position, reader(world).lagging), (1, {}))
            assert len(letters(world)) == 1

    asyncio.run(test())


def test_a_delay_in_text_is_a_delay():
    async def test() -> None:
        async with queue_world() as world:
            await joined(world)
            world.produce("t", b"later", headers=(("x-delay", b"500"),))
            await world.until(lambda: reader(world).position, 1)
            assert world.waiting("q") == []
            world.clock.advance(500)
            world.hub.delayed_of("/")._release()
            got = world.vhost.queues["q"].get(world.clock.now_ms(), no_ack=True)
            assert got is not None
            assert (got.message.body, got.message.headers) == (b"later", {"x-delay": -500})

    asyncio.run(test())


def test_keys_and_names_of_any_bytes_are_made_to_fit():
    async def test() -> None:
        async with queue_world() as world:
            await joined(world)
            names = ("ü" * 300, "\udcff", "")
            world.produce(
                "t", b"1", key="ü".encode() * 300, headers=tuple((name, b"\xff") for name in names)
            )
            await world.until(lambda: world.vhost.queues["q"].waiting, 1)
            got = world.vhost.queues["q"].get(world.clock.now_ms(), no_ack=True)
            assert got is not None
            message: Message = got.message
            assert message.routing_key == "ü" * 127
            assert message.headers == {"ü" * 127: b"\xff", "\ufffd": b"\xff", "": b"\xff"}

    asyncio.run(test())


# --- targets that refuse ---------------------------------------------------------------------------


def test_a_full_queue_does_not_make_others_get_records_again():
    async def test() -> None:
        async with queue_world() as world:
            await joined(world)
            await world.queue("full", bound_to="x", **FULL)
            numbers = [b"%d" % number for number in range(10)]
            world.produce("t", *numbers[:5])
            await world.until(lambda: reader(world).position, 5)
            assert reader(world).lagging == {"queue full": 2}
            world.produce("t", *numbers[5:])
            await world.until(lambda: reader(world).position, 10)
            assert world.waiting("q") == numbers
            taken: list[bytes] = []
            while len(taken) < 10:
                await world.until(lambda: world.vhost.queues["full"].waiting > 0)
                taken += world.waiting("full")
            assert taken == numbers
            await world.until(lambda: reader(world).lagging, {})
            world.produce("t", b"last")
            await world.until(lambda: reader(world).position, 11)
            assert (world.waiting("q"), world.waiting("full")) == ([b"last"], [b"last"])

    asyncio.run(test())


def test_a_target_goes_on_where_it_was_after_a_restart():
    async def test() -> None:
        files, clock = MemoryFiles(), ManualClock()
        numbers = [b"%d" % number for number in range(5)]
        async with queue_world(files, clock) as world:
            await joined(world)
            await world.queue("full", bound_to="x", **FULL)
            world.produce("t", *numbers)
            await world.until(lambda: reader(world).position, 5)
        async with queue_world(files, clock) as world:
            assert world.waiting("full") == numbers[:2]
            await world.until(lambda: world.vhost.queues["full"].waiting, 2)
            assert world.waiting("full") == numbers[2:4]
            await world.until(lambda: reader(world).lagging, {})
            assert (world.waiting("full"), world.waiting("q")) == (numbers[4:], numbers)

    asyncio.run(test())


def test_a_target_that_is_unbound_lags_no_more():
    async def test() -> None:
        async with queue_world() as world:
            await joined(world)
            await world.queue("full", bound_to="x", **FULL)
            world.produce("t", *[b"m"] * 5)
            await world.until(lambda: reader(world).lagging, {"queue full": 2})
            await world.declarations.delete_queue(world.vhost, world.vhost.queues["full"])
            await world.until(lambda: reader(world).lagging, {})

    asyncio.run(test())


def test_a_target_whose_records_were_all_deleted_lags_no_more(caplog):
    async def test() -> None:
        async with queue_world() as world:
            await joined(world)
            await world.queue("full", bound_to="x", **FULL)
            world.produce("t", *[b"m"] * 6)
            await world.until(
                lambda: (reader(world).position, reader(world).lagging), (6, {"queue full": 2})
            )
            world.broker.topic("t").partitions[0].delete_before(6)
            await world.until(lambda: reader(world).lagging, {})
            assert caplog.text.count("skips records 2 to 5") == 1

    asyncio.run(test())


def test_a_topic_that_refuses_records_does_not_hold_up_others(monkeypatch):
    monkeypatch.setattr(from_topic, "PATIENCE_S", 0)

    async def test() -> None:
        async with queue_world() as world:
            await world.topic("small", max_message_bytes="500")
            await joined(world, x_strom_to_topic="small")
            bodies = [b"1", bytes(1000), b"2"]
            for body in bodies:
                world.produce("t", body)
            await world.until(lambda: reader(world).position, 3)
            for _ in range(3):
                world.feed("x").retry()
                await world.settled()
            world.produce("t", b"3")
            await world.until(lambda: reader(world).position, 4)
            assert world.waiting("q") == [*bodies, b"3"]
            await world.broker.set_topic_configs("small", {})
            world.feed("x").retry()
            await world.until(lambda: reader(world).lagging, {})
            assert sorted(map(bytes, world.values("small"))) == sorted([*bodies, b"3"])

    asyncio.run(test())


def test_a_queue_whose_log_is_not_written_does_not_hold_up_others(monkeypatch):
    monkeypatch.setattr(from_topic, "PATIENCE_S", 0)

    async def test() -> None:
        async with queue_world() as world:
            await joined(world)
            damaged = await world.queue("damaged", bound_to="x")
            topic = world.broker.topic(damaged.definition.topic)
            with monkeypatch.context() as damage:
                damage.setattr(topic.partitions[0], "append", refuse)
                world.produce("t", b"1", b"2")
                await world.until(lambda: reader(world).position, 2)
                world.produce("t", b"3")
                await world.until(lambda: reader(world).position, 3)
                assert world.waiting("q") == [b"1", b"2", b"3"]
                assert reader(world).lagging == {"queue damaged": 0}
            world.hub.turn._retry()
            await world.until(lambda: reader(world).lagging, {})
            assert world.waiting("damaged") == [b"1", b"2", b"3"]

    asyncio.run(test())


def test_what_a_full_queue_dead_letters_is_not_retried():
    async def test() -> None:
        async with queue_world() as world:
            await joined(world)
            await world.queue("last")
            rule: dict[str, Any] = {"x_max_length": 1, "x_overflow": "reject-publish-dlx"}
            to_last = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "last"}
            await world.queue("full", bound_to="x", **rule, **to_last)
            world.produce("t", b"1", b"2", b"3")
            await world.until(lambda: reader(world).position, 3)
            assert (world.waiting("full"), world.waiting("last")) == ([b"1"], [b"2", b"3"])

    asyncio.run(test())


def test_a_power_cut_leaves_no_record_out_in_any_target():
    async def test(seed: int) -> None:
        files, clock = MemoryFiles(seed), ManualClock()
        numbers = {b"%d" % number for number in range(6)}
        async with queue_world(files, clock) as world:
            await joined(world)
            await world.queue("full", bound_to="x", **FULL)
            for number in sorted(numbers):
                world.produce("t", number)
                for _ in range(seed % 4):
                    await asyncio.sleep(0.0005)
                if seed % 3 == 0:
                    await world.hub.bridges.note_positions()
            await world.broker.commit.finish_all()
            world.lose_power()
        async with queue_world(files, clock) as world:
            full: set[bytes] = set()
            while full < numbers:
                await world.until(lambda: world.vhost.queues["full"].waiting > 0)
                full |= set(world.waiting("full"))
            await world.until(lambda: reader(world).position, 6)
            assert set(world.waiting("q")) == numbers, f"seed {seed}"

    for seed in range(12):
        asyncio.run(test(seed))


# --- partitions and topics -------------------------------------------------------------------------


def test_added_partitions_are_read_from_their_first_record_on():
    async def test() -> None:
        files, clock = MemoryFiles(), ManualClock()
        async with queue_world(files, clock) as world:
            await joined(world)
            await world.broker.add_partitions("t", 2)
            world.produce("t", b"1", partition=1)
            await world.until(lambda: world.waiting("q"), [b"1"])
            await world.hub.bridges.note_positions()
            world.hub.bridges.stop()  # the next partition comes while nobody looks
            await world.broker.add_partitions("t", 3)
            world.produce("t", b"2", partition=2)
            await world.broker.commit.finish_all()
        async with queue_world(files, clock) as world:
            await world.until(lambda: world.waiting("q"), [b"2"])

    asyncio.run(test())


def test_a_topic_that_was_deleted_and_created_again_is_read_from_its_first_record_on():
    async def test() -> None:
        async with queue_world() as world:
            await joined(world)
            world.produce("t", b"1", b"2", b"3")
            await world.until(lambda: reader(world).position, 3)
            await world.broker.delete_topic("t")
            await world.settled()
            assert world.broker.find_topic("t") is None
            await world.topic("t")
            world.produce("t", b"4")
            await world.until(lambda: reader(world).position, 1)
            assert world.waiting("q") == [b"1", b"2", b"3", b"4"]

    asyncio.run(test())


def test_a_topic_that_was_created_again_during_a_stop_is_read_from_its_first_record_on():
    async def test() -> None:
        files, clock = MemoryFiles(), ManualClock()
        async with queue_world(files, clock) as world:
            await joined(world)
            world.produce("t", b"1", b"2")
            await world.until(lambda: world.waiting("q"), [b"1", b"2"])
            await world.hub.bridges.note_positions()
            world.hub.broker.on_topics_changed.clear()
            await world.broker.delete_topic("t")
        async with queue_world(files, clock) as world:
            assert world.broker.find_topic("t") is None, "an exchange does not bring a topic back"
            world.hub.broker.on_topics_changed.clear()
            await world.topic("t")
            world.produce("t", b"3", b"4", b"5")
            await world.broker.commit.finish_all()
        async with queue_world(files, clock) as world:
            await world.until(lambda: world.vhost.queues["q"].waiting, 3)
            assert world.waiting("q") == [b"3", b"4", b"5"]

    asyncio.run(test())


def test_an_exchange_remembers_where_it_began_through_a_power_cut():
    async def test(seed: int) -> None:
        files, clock = MemoryFiles(seed), ManualClock()
        async with queue_world(files, clock) as world:
            await world.topic("t")
            world.produce("t", b"before")
            await world.broker.commit.finish_all()
            await world.exchange("x", **FROM_TOPIC)
            await world.queue("q", bound_to="x")
            world.produce("t", b"after")
            partition = world.broker.topic("t").partitions[0]
            while partition.log.flushed_offset < 2:
                await asyncio.sleep(0)
            world.lose_power()
        async with queue_world(files, clock) as world:
            await world.until(lambda: reader(world).position, 2)
            assert world.waiting("q") == [b"after"]

    for seed in range(10):
        asyncio.run(test(seed))


def test_cursors_without_a_topic_id_still_count():
    async def test() -> None:
        files, clock = MemoryFiles(), ManualClock()
        async with queue_world(files, clock) as world:
            await joined(world)
            world.produce("t", b"1", b"2", b"3")
            await world.until(lambda: len(world.waiting("q")), 0)
            await world.until(lambda: reader(world).position, 3)
            world.waiting("q")
            world.hub.bridges.stop()
            await world.hub.bridges.note_positions()
            world.hub.bridges._joined.clear()
            await world.hub.topology.write([Cursor("/", "x", {"0": 2})])
        async with queue_world(files, clock) as world:
            await world.until(lambda: reader(world).position, 3)
            assert world.waiting("q") == [b"3"]

    asyncio.run(test())


# --- damage ----------------------------------------------------------------------------------------


def test_a_damaged_batch_stops_the_exchange_visibly_until_it_is_restored(monkeypatch, caplog):
    monkeypatch.setattr(from_topic, "RETRY", RetryPolicy(first_s=0.001))
    files, path = MemoryFiles(), "data/t-0/00000000000000000000.log"

    async def test() -> None:
        async with queue_world(files=files) as world:
            await joined(world)
            world.produce("t", b"0")
            world.produce("t", b"1")
            world.produce("t", b"2")
            reader(world).stop()
            await world.settled()
        whole = files.peek(path)
        damaged = bytearray(whole)
        damaged[[at for at, _ in headers(whole)][1] + 65] ^= 1
        files.poke(path, damaged)
        async with queue_world(files=files) as world:
            await world.until(lambda: world.hub.bridges.stopped_by_damage, 1)
            before = len(caplog.records)
            for _ in range(5):
                assert reader(world).fetch(1) is None
            assert len(caplog.records) == before, "a retry logs nothing"
            assert caplog.text.count("'x' stops at offset 1 of t-0") == 1
            assert world.waiting("q") == [b"0"]
        files.poke(path, whole)
        async with queue_world(files=files) as world:
            await world.until(lambda: reader(world).position, 3)
            assert world.hub.bridges.stopped_by_damage == 0
            assert world.waiting("q") == [b"1", b"2"]

    asyncio.run(test())
