"""Publisher confirms of one channel, sent in as few acks as possible (`multiple`)."""

from bisect import bisect_right
from collections.abc import Callable

from strom.queues.receipts import CountedReceipt
from strom.wire.amqp.codec import method_frame
from strom.wire.amqp.delivering import ack_frame
from strom.wire.amqp.methods import basic
from strom.wire.amqp.table import Buffer


class ConfirmReceipt(CountedReceipt):
    """One published message; it counts the queues that must make it durable, and the publisher."""

    __slots__ = ("_confirms", "_number")

    def __init__(self, confirms: "Confirms", number: int) -> None:
        self._waiting = 1  # here, not in the base class: one is made for every message
        self._failed = False
        self._confirms = confirms
        self._number = number

    def _settled(self, durable: bool) -> None:
        confirms = self._confirms
        if not confirms.closed:
            if not confirms.durable and not confirms.failed:
                confirms.on_due()
            (confirms.durable if durable else confirms.failed).append(self._number)


class Confirms:
    """The messages published on a channel since confirm.select."""

    def __init__(self, on_due: Callable[[], None]) -> None:
        self.on_due = on_due
        self._next = 1
        self._floor = 0
        """All numbers up to this one are settled."""
        self._beyond: set[int] = set()
        self.durable: list[int] = []
        """The numbers of messages that became durable since the last `write`."""
        self.failed: list[int] = []
        self._told = 0
        self.closed = False

    @property
    def is_due(self) -> bool:
        return bool(self.durable or self.failed)

    def expect(self) -> ConfirmReceipt:
        receipt = ConfirmReceipt(self, self._next)
        self._next += 1
        return receipt

    def close(self) -> int:
        """Stop confirming: the channel is closed; return the number of unconfirmed messages."""
        self.closed = True
        return self._next - 1 - self._told

    def write(self, out: list[Buffer], channel: int) -> int:
        """Write acks and nacks for settled messages; return the number of these messages."""
        durable, self.durable = sorted(self.durable), []
        failed, self.failed = self.failed, []
        out += [method_frame(channel, basic.Nack(number, False, False)) for number in failed]
        beyond = self._beyond
        beyond.update(durable)
        beyond.update(failed)
        while self._floor + 1 in beyond:
            self._floor += 1
            beyond.discard(self._floor)
        in_order = bisect_right(durable, self._floor)
        if in_order:
            out.append(ack_frame(channel, durable[in_order - 1], in_order > 1))
        out += [ack_frame(channel, number) for number in durable[in_order:]]
        count = len(durable) + len(failed)
        self._told += count
        return count
