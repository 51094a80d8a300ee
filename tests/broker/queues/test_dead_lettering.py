"""Records that a share group gives up are in its dead letter topic before they are gone."""

import asyncio
import contextlib

import pytest

from strom.broker import share_context
from strom.broker.replaying import records_of
from strom.coordination.groups.share.partitions.acquisition import Acquired
from strom.coordination.groups.share.partitions.ranges import RecordState
from strom.coordination.groups.share.partitions.share_partition import AcknowledgeType
from strom.model.errors import ApiError, DirectoryOffline, ErrorCode
from strom.model.retries import RetryPolicy
from strom.testing import MemoryFiles
from strom.wire.kafka.records import Record, build_batch
from tests.broker.opened import safe
from tests.broker.sharing import OTHER, Sharing, sharing
from tests.storage.world import undecodable

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
TOPIC = "dlq.t"


def run(test):
    asyncio.run(asyncio.wait_for(test, 60))


def letters(it: Sharing) -> list[Record]:
    hosted = it.world.broker.find_topic(TOPIC)
    partitions = hosted.partitions if hosted is not None else []
    return [record for partition in partitions for record in records_of(partition.log)]


def notes(letter: Record) -> dict[str, str]:
    return {
        name.removeprefix("__dlq.errors."): (value or b"").decode()
        for name, value in letter.headers
        if name.startswith("__dlq.errors.")
    }


async def with_dead_letters(it: Sharing, **configs: str) -> None:
    await it.set_configs(errors_deadletterqueue_topic_name=TOPIC, **configs)


def test_a_rejected_record_is_copied_with_a_note():
    async def test():
        async with sharing() as it:
            await with_dead_letters(it)
            now_ms = it.world.clock.now_ms()
            original = Record(0, now_ms - 5, b"key", b"value", (("mine", b"1"),))
            appended = it.source.append(build_batch([original]), now_ms)
            await safe(it.source, appended)
            it.acquired()
            assert await it.acknowledge(0, 0, REJECT) is ErrorCode.NONE
            (letter,) = letters(it)
            assert (letter.key, letter.value) == (b"key", b"value")
            assert letter.timestamp == original.timestamp
            assert letter.headers[0] == ("mine", b"1")
            assert notes(letter) == {
                "topic": "t",
                "partition": "0",
                "offset": "0",
                "group": "g",
                "delivery.count": "1",
                "message": "The record was rejected by a consumer.",
            }
            assert it.shared.shared.partition.start_offset == 1

    run(test())


def test_records_that_cannot_be_decoded_leave_a_note():
    async def test():
        async with sharing() as it:
            await with_dead_letters(it)
            now_ms = it.world.clock.now_ms()
            await safe(it.source, it.source.append(undecodable(2, timestamp=now_ms), now_ms))
            await it.world.produce(it.source, b"fine")
            it.acquired()
            assert await it.acknowledge(0, 2, REJECT) is ErrorCode.NONE
            assert [notes(letter)["offset"] for letter in letters(it)] == ["0", "1", "2"]
            assert [letter.value for letter in letters(it)] == [None, None, b"fine"]

    run(test())


def test_a_record_that_was_delivered_too_often_is_copied():
    async def test():
        async with sharing() as it:
            await with_dead_letters(it, share_delivery_count_limit="2")
            await it.world.produce(it.source, b"poison", b"fine")
            for _ in range(2):
                it.acquired()
                assert await it.acknowledge(0, 0, RELEASE) is ErrorCode.NONE
            (letter,) = letters(it)
            assert letter.value == b"poison"
            assert notes(letter)["delivery.count"] == "2"
            assert "delivery limit" in notes(letter)["message"]
            assert await it.acknowledge(1, 1, ACCEPT) is ErrorCode.NONE
            assert it.acquired() == []
            assert len(letters(it)) == 1

    run(test())


def test_locks_that_time_out_for_the_last_time_lead_there_too():
    async def test():
        async with sharing() as it:
            await with_dead_letters(
                it, share_delivery_count_limit="2", share_record_lock_duration_ms="1000"
            )
            await it.world.produce(it.source, b"poison")
            it.acquired()
            await it.acknowledge(0, 0, RELEASE)
            it.acquired()
            while not letters(it):
                await asyncio.sleep(0.05)
            while it.shared.shared.partition.start_offset != 1:
                await asyncio.sleep(0.01)

    run(test())


def test_only_a_note_if_the_group_wants_no_copies():
    async def test():
        async with sharing() as it:
            await with_dead_letters(it, errors_deadletterqueue_copy_record_enable="false")
            await it.world.produce(it.source, b"secret", key=b"key")
            it.acquired()
            await it.acknowledge(0, 0, REJECT)
            (letter,) = letters(it)
            assert (letter.key, letter.value) == (None, None)
            assert notes(letter)["offset"] == "0"

    run(test())


def test_only_a_note_if_the_copy_is_too_large():
    async def test():
        async with sharing() as it:
            await with_dead_letters(it)
            await it.world.broker.create_topic(TOPIC, 1, {"max.message.bytes": "2000"})
            await it.world.produce(it.source, b"x" * 5000, b"small")
            it.acquired()
            assert await it.acknowledge(0, 1, REJECT) is ErrorCode.NONE
            large, small = letters(it)
            assert (large.value, small.value) == (b"", b"small")
            assert notes(large)["offset"] == "0"

    run(test())


def test_a_compacted_topic_gets_keys():
    async def test():
        async with sharing() as it:
            await with_dead_letters(it)
            await it.world.broker.create_topic(TOPIC, 1, {"cleanup.policy": "compact"})
            await it.world.produce(it.source, b"a")
            it.acquired()
            assert await it.acknowledge(0, 0, REJECT) is ErrorCode.NONE
            (letter,) = letters(it)
            assert (letter.key, letter.value) == (b"t-0-0", b"a")

    run(test())


def test_without_a_topic_nothing_is_copied():
    async def test():
        async with sharing() as it:
            await it.world.produce(it.source, b"x")
            it.acquired()
            await it.acknowledge(0, 0, REJECT)
            assert it.world.broker.find_topic(TOPIC) is None
            assert it.acquired() == []

    run(test())


def test_a_crash_before_it_is_archived_may_copy_twice_but_never_loses_it():
    async def test():
        files = MemoryFiles()
        with contextlib.suppress(DirectoryOffline):  # it cannot be closed in good order
            async with sharing(files) as it:
                await with_dead_letters(it)
                await it.world.produce(it.source, b"x")
                it.acquired()
                waiting = asyncio.ensure_future(it.acknowledge(0, 0, REJECT))
                while not letters(it):
                    await asyncio.sleep(0)
                files.crash()  # perhaps before anybody wrote down that it is archived
                waiting.cancel()
        async with sharing(files) as it:
            if it.acquired() == [Acquired(0, 0, 1)]:
                assert await it.acknowledge(0, 0, REJECT) is ErrorCode.NONE
            assert 1 <= len(letters(it)) <= 2
            assert {letter.value for letter in letters(it)} == {b"x"}

    run(test())


def test_a_topic_that_cannot_be_written_keeps_the_record(monkeypatch):
    monkeypatch.setattr(share_context, "BURY_RETRY", RetryPolicy(0.05, 0.05))

    async def test():
        files = MemoryFiles()
        never = {"errors_deadletterqueue_auto_create_topics_enable": "false"}
        async with sharing(files, None, **never) as it:
            await with_dead_letters(it)
            await it.world.produce(it.source, b"x")
            it.acquired()
            assert await it.acknowledge(0, 0, REJECT) is ErrorCode.NONE
            assert it.acquired(OTHER) == []  # it is nobody's any more ...
            (one,) = it.shared.shared.partition.ranges
            assert one.state is RecordState.ARCHIVING  # ... but not gone
            await it.world.broker.create_topic(TOPIC, 1, {})
            while it.shared.shared.partition.start_offset != 1:
                await asyncio.sleep(0.01)
            assert [letter.value for letter in letters(it)] == [b"x"]

    run(test())


@pytest.mark.parametrize("name", ["no spaces", "other", "__consumer_offsets", "dlq.ä"])
def test_a_bad_name_is_refused_when_it_is_set(name):
    async def test():
        async with sharing() as it:
            with pytest.raises(ApiError) as refused:
                await it.set_configs(errors_deadletterqueue_topic_name=name)
            assert refused.value.code is ErrorCode.INVALID_CONFIG

    run(test())
