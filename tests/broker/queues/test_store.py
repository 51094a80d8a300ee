"""What a queue's store does when the disk does not take what it must write at a start."""

import asyncio
import errno

from strom.broker.queues.message_cache import MemoryShare
from strom.broker.queues.message_properties import make_message, make_properties
from strom.broker.queues.queue_stores import QUEUE_TOPIC_SETTINGS
from strom.broker.queues.store import QueueStore
from strom.queues.acknowledged import Acknowledged
from strom.queues.progress_records import ALL, encode_snapshot
from strom.wire.kafka.records import Record, build_batch
from tests.broker.opened import opened


class Turn:
    """Does nothing by itself, and notes what failed."""

    def __init__(self) -> None:
        self.failures: list[Exception] = []

    def write_later(self, store: QueueStore) -> None:
        pass

    def open_topic(self, store: QueueStore) -> None:
        raise AssertionError("it has a topic")

    def failed(self, store: QueueStore, error: Exception) -> None:
        self.failures.append(error)


class Confirm:
    """A publisher that waits."""

    is_patient = False

    def __init__(self) -> None:
        self.outcomes: list[bool] = []

    def expect(self) -> None:
        pass

    def settle(self, *, durable: bool) -> None:
        self.outcomes.append(durable)


def test_no_message_takes_a_position_of_which_the_disk_says_that_it_is_gone():
    async def test():
        async with opened() as world:
            hosted = await world.broker.create_topic("q", 2, QUEUE_TOPIC_SETTINGS)
            messages, progress = hosted.partitions
            now_ms = world.clock.now_ms()
            gone = encode_snapshot(
                Acknowledged(5), 5, 5, ()
            )  # a power cut has taken these messages
            progress.append(build_batch([Record(0, now_ms, ALL, gone)]), now_ms, from_client=False)
            turn = Turn()
            store = QueueStore(turn, turn, world.clock, MemoryShare(), durable=True)
            world.files.fail(1, errno.ENOSPC, only="append", sticky=True)
            store.load(hosted)
            await store.log.loaded()
            assert turn.failures, "the correction was not written"
            world.files.heal()
            first, second = Confirm(), Confirm()
            properties = make_properties({}, timestamp_ms=now_ms)
            message = make_message("", "q", properties, b"body", now_ms)
            message.persistent = True
            store.add(message, first)
            store.write_messages()
            assert first.outcomes == [False], "it is refused until the correction is on disk"
            assert messages.log.end_offset == 0
            await world.broker.commit.finish_all()
            store.add(message, second)
            store.write_messages()
            await world.broker.commit.finish_all()
            assert second.outcomes == [True]
            again = Turn()
            found = QueueStore(again, again, world.clock, MemoryShare(), durable=True)
            assert 0 not in found.load(hosted).acknowledged

    asyncio.run(asyncio.wait_for(test(), 30))
