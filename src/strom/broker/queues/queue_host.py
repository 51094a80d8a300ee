"""What reaches beyond one queue: publishing dead letters, and timers for expiry."""

import asyncio
from collections.abc import Mapping

from strom.broker.queues.bridges import Bridges
from strom.broker.queues.slices import Slices
from strom.broker.queues.turn import TickBatcher
from strom.model.clock import Clock
from strom.model.errors import ApiError, ErrorCode
from strom.queues.dead_letters import dead_letter, is_cycle
from strom.queues.message import Message
from strom.queues.queue import Queue
from strom.queues.receipts import Receipt
from strom.queues.store import PendingRemoval
from strom.queues.virtual_host import DEFAULT, VirtualHost


class QueueHost:
    """Serves the queues of all virtual hosts."""

    def __init__(
        self,
        vhosts: Mapping[str, VirtualHost],
        bridges: Bridges,
        turn: TickBatcher,
        slices: Slices,
        clock: Clock,
    ) -> None:
        self._vhosts = vhosts
        self._bridges = bridges
        self._turn = turn
        self._slices = slices
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._dead: list[tuple[Queue, Message, str, Receipt | None]] = []
        self._timers: dict[Queue, asyncio.TimerHandle] = {}
        self._stopping = False

    @property
    def dead_letters(self) -> int:
        """The number of dead letters that are not published yet."""
        return len(self._dead)

    # --- dead letters --------------------------------------------------------------------------

    def give_up(self, queue: Queue, message: Message, reason: str, receipt: Receipt | None) -> None:
        """Discard a message, or publish it later if the queue has a dead letter exchange."""
        if queue.rules.dead_letter_exchange is not None:
            if receipt is not None:
                receipt.expect()
            self._dead.append((queue, message, reason, receipt))
            self._turn.send_first(self)

    def flush(self) -> None:
        """Publish dead letters. Those that full queues drop for them follow in the next turn."""
        dead, self._dead = self._dead, []
        for queue, message, reason, receipt in dead:
            self._send(queue, message, reason, receipt)
            if receipt is not None:
                receipt.settle(durable=True)

    def _send(self, queue: Queue, message: Message, reason: str, receipt: Receipt | None) -> None:
        vhost = self._vhosts[queue.definition.vhost]
        exchange = queue.rules.dead_letter_exchange
        assert exchange is not None  # noqa: S101 - give_up checks it
        if exchange != DEFAULT and exchange not in vhost.exchanges:
            return
        now_ms = self._clock.now_ms()

        def letter_of(message: Message) -> Message:
            return dead_letter(
                message,
                queue=queue.name,
                reason=reason,
                exchange=exchange,
                routing_key=queue.rules.dead_letter_routing_key,
                now_ms=now_ms,
            )

        def again() -> Message | None:
            assert isinstance(receipt, PendingRemoval)  # noqa: S101 - see can_repeat
            return None if queue.deleted else letter_of(still_there(receipt))

        letter = letter_of(message)
        for target in vhost.route(letter.exchange, letter.routing_key, letter.headers):
            if not is_cycle(letter, target.name):
                target.publish(letter, letter.timestamp_ms, receipt)
        if vhost.has_feeds:
            passed = vhost.exchanges_passed(letter.exchange, letter.routing_key, letter.headers)
            can_repeat = isinstance(receipt, PendingRemoval)
            self._bridges.feed(passed, letter, receipt, again if can_repeat else None)

    # --- time ----------------------------------------------------------------------------------

    def wake(self, queue: Queue, at_ms: int) -> None:
        """Call the queue's `woken` at that time."""
        self.forget(queue)
        if not self._stopping:
            delay = max(0, at_ms - self._clock.now_ms()) / 1000
            self._timers[queue] = self._loop.call_later(delay, self.wake_now, queue)

    def wake_now(self, queue: Queue) -> None:
        """Drop expired messages in turn with other long work: many queues may wake at once."""
        self._timers.pop(queue, None)

        def step() -> bool:
            if not queue.deleted and not self._stopping:
                queue.woken(self._clock.now_ms())
            return False  # if there is more, it schedules another wake-up

        self._slices.add(step)

    def forget(self, queue: Queue) -> None:
        """Do not wake a queue."""
        running = self._timers.pop(queue, None)
        if running is not None:
            running.cancel()

    def stop(self) -> None:
        """Cancel all timers: messages that expire from now on do so after the next start."""
        self._stopping = True
        for queue in tuple(self._timers):
            self.forget(queue)


def still_there(removal: PendingRemoval) -> Message:
    """Read the message that is to be removed; raise ApiError if it cannot be read now."""
    message = removal.message()
    if message is None:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "The message cannot be read now.")
    return message
