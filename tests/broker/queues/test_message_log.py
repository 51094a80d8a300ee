"""Messages at their positions, in a log on a disk in memory."""

import asyncio
import errno

import pytest

from strom.broker.queues.message_log import MessageLog
from strom.broker.queues.message_properties import make_message, make_properties
from strom.broker.queues.queue_stores import QUEUE_TOPIC_SETTINGS
from strom.model.errors import ApiError, ErrorCode
from strom.queues.acknowledged import Acknowledged
from strom.queues.store import MessageUnavailable
from tests.broker.opened import opened


def run(test):
    async def with_log():
        async with opened() as world:
            hosted = await world.broker.create_topic("q", 2, QUEUE_TOPIC_SETTINGS)
            await test(world, MessageLog(hosted.partitions[0]))

    asyncio.run(asyncio.wait_for(with_log(), 10))


def batch(*positions):
    properties = make_properties({}, timestamp_ms=0)
    return [(at, make_message("x", "key", properties, b"%d" % at, 5)) for at in positions]


def bodies(found):
    return {position: message.body for position, message in found.items()}


def test_messages_are_read_with_those_that_follow():
    async def test(world, log):
        assert log.append(batch(0, 1, 2), 0) == []
        found, first = log.read(1, 1 << 20, lambda at: False)
        assert (bodies(found), first) == ({1: b"1", 2: b"2"}, 1)
        one = found[1]
        assert (one.exchange, one.routing_key, one.timestamp_ms) == ("x", "key", 5)

    run(test)


def test_positions_that_were_consumed_before_are_skipped_and_reported():
    async def test(world, log):
        assert log.append(batch(2, 3, 6), 0) == [(0, 2), (4, 6)]
        assert log.end == 7
        found, first = log.read(4, 1 << 20, lambda at: False)
        assert (bodies(found), first) == ({6: b"6"}, 6)

    run(test)


def test_a_read_stops_when_its_room_is_used_and_leaves_out_what_is_unwanted():
    async def test(world, log):
        log.append(batch(*range(10)), 0)
        found, _ = log.read(0, 900, lambda at: at == 1)
        assert sorted(found) == [0, 2, 3]

    run(test)


def test_live_messages_are_those_that_are_not_removed():
    async def test(world, log):
        log.append(batch(0, 1, 2, 3), 0)
        live = log.live_messages(Acknowledged(1, [(2, 3)]))
        assert [position for position, _ in live] == [1, 3]

    run(test)


def test_a_log_that_cannot_be_read_now_is_reported_once(caplog, monkeypatch):
    def refuse(*_):
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "too many open files")

    async def test(world, log):
        log.append(batch(0), 0)
        with monkeypatch.context() as patched:
            patched.setattr(log.partition.log.reader, "read", refuse)
            for _ in range(2):
                with pytest.raises(MessageUnavailable):
                    log.read(0, 1000, lambda at: False)
        assert caplog.text.count("Cannot deliver messages") == 1
        assert bodies(log.read(0, 1000, lambda at: False)[0]) == {0: b"0"}

    run(test)


def test_a_refused_append_changes_nothing():
    async def test(world, log):
        world.files.fail(1, errno.ENOSPC, only="append", sticky=True)
        with pytest.raises(ApiError):
            log.append(batch(0), 0)
        assert log.end == 0
        world.files.heal()

    run(test)
