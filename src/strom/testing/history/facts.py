"""Indexes over a history, shared by all checks."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from strom.testing.history.operations import Key, Operation, Outcome, Read, Send, Value


class SentBy(NamedTuple):
    """A send, and the index of its operation."""

    operation: int
    send: Send


class VersionOrder:
    """The known records of one key by offset."""

    def __init__(self) -> None:
        self.values: dict[int, dict[Value, int]] = {}
        """The values at an offset (one, unless there is an anomaly), each with an operation that shows
        it.
        """
        self.places: dict[Value, list[int]] = {}
        """The offsets of a value (one, unless there is an anomaly)."""
        self.rank: dict[int, int] = {}
        """Offsets without gaps, which markers and aborted records leave."""

    def note(self, offset: int, value: Value, operation: int) -> None:
        """Record that an operation shows a value at an offset."""
        here = self.values.setdefault(offset, {})
        if value not in here:
            here[value] = operation
            self.places.setdefault(value, []).append(offset)

    def finish(self) -> None:
        """Compute the ranks after the last `note`."""
        self.rank = {offset: index for index, offset in enumerate(sorted(self.values))}
        for offsets in self.places.values():
            offsets.sort()

    def steps_between(self, earlier: int, later: int) -> int:
        """The distance between two offsets in records; 1 if one of them is unknown."""
        before, after = self.rank.get(earlier), self.rank.get(later)
        return 1 if before is None or after is None else after - before


class Facts:
    """Sends and reads by key and value. Operations are numbered in the order of their start."""

    def __init__(self, history: Iterable[Operation]) -> None:
        self.operations = sorted(history, key=lambda operation: operation.began)
        self.writers: dict[Key, dict[Value, list[SentBy]]] = {}
        self.happened: list[bool] = [one.outcome is Outcome.OK for one in self.operations]
        """Also true for an operation of unknown outcome if one of its records was read."""
        self.seen: dict[Key, set[Value]] = {}
        """The values that successful operations read."""
        self.orders: dict[Key, VersionOrder] = defaultdict(VersionOrder)
        self._note_sends()
        self._note_reads()
        self._note_order()

    def writer(self, read: Read) -> int | None:
        """The operation that sent the record that was read; None if that is ambiguous."""
        candidates = self.candidates(read)
        return candidates[0] if len(candidates) == 1 else None

    def candidates(self, read: Read) -> list[int]:
        """The operations that may have sent the record; failed ones only if there are no others.

        A value may have been sent again after a transaction was aborted: then the offset decides.
        """
        sent = self.writers.get(read.key, {}).get(read.value, ())
        if len(sent) == 1:
            return [sent[0].operation]
        exact = [one.operation for one in sent if one.send.offset == read.offset]
        if exact:
            return exact
        possible = [one.operation for one in sent if one.send.offset is None] or [
            one.operation for one in sent
        ]
        alive = [one for one in possible if self.operations[one].outcome is not Outcome.FAILED]
        return alive or possible

    def _note_sends(self) -> None:
        for index, operation in enumerate(self.operations):
            for send in operation.sends:
                by_value = self.writers.setdefault(send.key, {})
                by_value.setdefault(send.value, []).append(SentBy(index, send))

    def _note_reads(self) -> None:
        for operation in self.operations:
            if operation.outcome is not Outcome.OK:
                continue
            for read in operation.reads:
                self.seen.setdefault(read.key, set()).add(read.value)
                writer = self.writer(read)
                if writer is not None and self.operations[writer].outcome is Outcome.UNKNOWN:
                    self.happened[writer] = True

    def _note_order(self) -> None:
        for index, operation in enumerate(self.operations):
            # Consumers get only durable records, so their reads count even if the operation failed.
            for read in operation.reads:
                self.orders[read.key].note(read.offset, read.value, index)
            if self.happened[index]:
                for send in operation.sends:
                    if send.offset is not None:
                        self.orders[send.key].note(send.offset, send.value, index)
        for order in self.orders.values():
            order.finish()
