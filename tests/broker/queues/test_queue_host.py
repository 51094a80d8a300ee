"""Dead letters and timers of queues, without a disk."""

import asyncio
from typing import Any, cast

import pytest

from strom.broker.queues.queue_host import QueueHost, still_there
from strom.broker.queues.slices import Slices
from strom.model.errors import ApiError
from strom.queues.definitions import QueueDefinition
from strom.queues.queue import Queue
from strom.queues.receipts import BatchReceipt
from strom.queues.store import PendingRemoval
from strom.queues.virtual_host import VirtualHost
from strom.testing.manual_clock import ManualClock
from tests.queues.memory_store import MemoryStore, make_message

TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


class Scene:
    """A host with queues in memory; the end of the turn comes when a test calls `host.flush`."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.vhost = VirtualHost("/")
        self.slices = Slices(asyncio.get_running_loop())
        self.due: list[object] = []
        bridges, turn = cast("Any", None), cast("Any", self)
        self.host = QueueHost({"/": self.vhost}, bridges, turn, self.slices, self.clock)

    def send_first(self, sender: object) -> None:
        self.due.append(sender)

    def queue(self, name: str, **arguments: object) -> Queue:
        given = {key.replace("_", "-"): value for key, value in arguments.items()}
        queue = Queue(QueueDefinition("/", name, arguments=given), MemoryStore(), self.host)
        self.vhost.add_queue(queue)
        return queue


def run(test):
    async def with_scene():
        await test(Scene())

    asyncio.run(asyncio.wait_for(with_scene(), 10))


def bodies(queue):
    return [message.body for message in queue.store.messages.values()]


def test_without_a_dead_letter_exchange_a_message_is_discarded():
    async def test(scene):
        scene.host.give_up(scene.queue("q"), make_message(b"m"), "rejected", None)
        assert (scene.host.dead_letters, scene.due) == (0, [])

    run(test)


def test_a_dead_letter_is_published_at_the_end_of_the_turn():
    async def test(scene):
        source, dead = scene.queue("q", **TO_DEAD), scene.queue("dead")
        settled: list[bool] = []
        receipt = BatchReceipt(settled.append)
        scene.host.give_up(source, make_message(b"m"), "rejected", receipt)
        receipt.settle(durable=True)
        assert (scene.host.dead_letters, scene.due, settled) == (1, [scene.host], [])
        scene.host.flush()
        assert (scene.host.dead_letters, bodies(dead), settled) == (0, [b"m"], [True])
        (letter,) = dead.store.messages.values()
        assert letter.headers["x-first-death-reason"] == "rejected"

    run(test)


def test_a_message_in_a_cycle_is_dropped():
    async def test(scene):
        queue = scene.queue("q", **{**TO_DEAD, "x-dead-letter-routing-key": "q"})
        scene.host.give_up(queue, make_message(b"m"), "expired", None)
        scene.host.flush()
        assert bodies(queue) == []

    run(test)


def test_a_dead_letter_exchange_that_does_not_exist_drops_the_message():
    async def test(scene):
        queue = scene.queue("q", **{"x-dead-letter-exchange": "missing"})
        settled: list[bool] = []
        receipt = BatchReceipt(settled.append)
        scene.host.give_up(queue, make_message(b"m"), "rejected", receipt)
        receipt.settle(durable=True)
        scene.host.flush()
        assert settled == [True]

    run(test)


def test_a_queue_is_woken_at_the_latest_time_that_it_asked_for():
    async def test(scene):
        queue = scene.queue("q", **{"x-message-ttl": 1000})
        queue.publish(make_message(b"m", scene.clock.now_ms()), scene.clock.now_ms())
        (timer,) = scene.host._timers.values()
        scene.host.wake(queue, scene.clock.now_ms() + 10)
        assert timer.cancelled()
        scene.clock.advance(1000)
        scene.host.wake_now(queue)
        assert queue.waiting == 1, "it expires in turn with other long work"
        await scene.slices.finish()
        assert queue.waiting == 0

    run(test)


@pytest.mark.parametrize("end", ["forget", "stop"])
def test_a_deleted_queue_and_a_stopped_host_wake_nothing(end):
    async def test(scene):
        queue = scene.queue("q", **{"x-message-ttl": 1000})
        queue.publish(make_message(b"m", scene.clock.now_ms()), scene.clock.now_ms())
        if end == "stop":
            scene.host.stop()
            scene.host.wake(queue, 0)
        else:
            scene.host.forget(queue)
        assert scene.host._timers == {}

    run(test)


def test_a_message_that_cannot_be_read_now_is_an_error_to_retry():
    async def test(scene):
        store = MemoryStore()
        store.add(make_message(b"m"), None)
        removal = PendingRemoval(store, 0)
        assert still_there(removal).body == b"m"
        store.is_readable = False
        with pytest.raises(ApiError, match="cannot be read now"):
            still_there(removal)

    run(test)
