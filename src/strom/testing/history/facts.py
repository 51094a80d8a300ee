"""A history put in order once, so that every check can look things up."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from strom.testing.history.operations import Key, Operation, Outcome, Read, Send, Value


class SentBy(NamedTuple):
    """A send, and the place of its operation."""

    operation: int
    send: Send


class VersionOrder:
    """The records of one key by offset, as far as they are known."""

    def __init__(self) -> None:
        self.values: dict[int, dict[Value, int]] = {}
        """What lies at an offset (one value, if all is well), and the operation that shows it."""
        self.places: dict[Value, list[int]] = {}
        """Where a value lies: at one offset, if all is well."""
        self.rank: dict[int, int] = {}
        """Offsets counted without their gaps: markers and aborted records leave some."""

    def note(self, offset: int, value: Value, operation: int) -> None:
        """An operation shows that a value is at an offset."""
        here = self.values.setdefault(offset, {})
        if value not in here:
            here[value] = operation
            self.places.setdefault(value, []).append(offset)

    def finish(self) -> None:
        """All is noted."""
        self.rank = {offset: index for index, offset in enumerate(sorted(self.values))}
        for offsets in self.places.values():
            offsets.sort()

    def steps_between(self, earlier: int, later: int) -> int:
        """How many records further an offset is; an offset nobody knows raises no alarm."""
        before, after = self.rank.get(earlier), self.rank.get(later)
        return 1 if before is None or after is None else after - before


class Facts:
    """Who sent what and who read it. Operations are numbered in the order in which they began."""

    def __init__(self, history: Iterable[Operation]) -> None:
        self.operations = sorted(history, key=lambda operation: operation.began)
        self.writers: dict[Key, dict[Value, list[SentBy]]] = {}
        self.happened: list[bool] = [one.outcome is Outcome.OK for one in self.operations]
        """Also true for an unknown outcome of which something was seen: then all of it happened."""
        self.seen: dict[Key, set[Value]] = {}
        """What was read by operations that came to a good end."""
        self.orders: dict[Key, VersionOrder] = defaultdict(VersionOrder)
        self._note_sends()
        self._note_reads()
        self._note_order()

    def writer(self, read: Read) -> int | None:
        """Who sent the record that was read; None if that cannot be told for certain."""
        candidates = self.candidates(read)
        return candidates[0] if len(candidates) == 1 else None

    def candidates(self, read: Read) -> list[int]:
        """Whoever may have sent the record that was read; those who failed only if nobody else did.

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
            # Consumers are only ever given what is safe, so their reads count in any case.
            for read in operation.reads:
                self.orders[read.key].note(read.offset, read.value, index)
            if self.happened[index]:
                for send in operation.sends:
                    if send.offset is not None:
                        self.orders[send.key].note(send.offset, send.value, index)
        for order in self.orders.values():
            order.finish()
