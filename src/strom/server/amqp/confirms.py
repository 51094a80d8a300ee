"""Publisher confirms of one channel, sent in as few acks as possible (`multiple`)."""

from bisect import bisect_right
from collections.abc import Callable

from strom.wire.amqp.codec import method_frame
from strom.wire.amqp.delivering import ack_frame
from strom.wire.amqp.methods import basic
from strom.wire.amqp.table import Buffer


class ConfirmReceipt:
    """One published message; it counts the queues that must make it durable, and the publisher."""

    __slots__ = ("_confirms", "_failed", "_number", "_waiting")
    is_patient = False

    def __init__(self, confirms: "Confirms", number: int) -> None:
        self._confirms = confirms
        self._number = number
        self._waiting = 1
        self._failed = False

    def expect(self) -> None:
        self._waiting += 1

    def settle(self, *, durable: bool) -> None:
        self._waiting -= 1
        if not durable:
            self._failed = True
        if not self._waiting:
            self._confirms.settled(self._number, self._failed)


class Confirms:
    """The messages published on a channel since confirm.select."""

    def __init__(self, on_due: Callable[[], None]) -> None:
        self._on_due = on_due
        self._next = 1
        self._floor = 0
        """All numbers up to this one are settled."""
        self._beyond: set[int] = set()
        self._durable: list[int] = []
        self._failed: list[int] = []
        self._told = 0
        self._closed = False

    @property
    def is_due(self) -> bool:
        return bool(self._durable or self._failed)

    def expect(self) -> ConfirmReceipt:
        receipt = ConfirmReceipt(self, self._next)
        self._next += 1
        return receipt

    def settled(self, number: int, failed: bool) -> None:
        """A message is durable everywhere, or has failed."""
        if self._closed:
            return
        if not self.is_due:
            self._on_due()
        (self._failed if failed else self._durable).append(number)

    def close(self) -> int:
        """Stop confirming: the channel is closed; return the number of unconfirmed messages."""
        self._closed = True
        return self._next - 1 - self._told

    def write(self, out: list[Buffer], channel: int) -> int:
        """Write acks and nacks for settled messages; return the number of these messages."""
        durable, self._durable = sorted(self._durable), []
        failed, self._failed = self._failed, []
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
