"""Histories in few words."""

from dataclasses import replace

from strom.testing.history import Operation, Outcome, Read, Send

KEY = "clicks-0"
OTHER = "clicks-1"


def sent(process, *values, key=KEY, outcome=Outcome.OK, at=None) -> Operation:
    """Sends; `at` is the offset of the first, None if the broker did not tell."""
    offsets = [None if at is None else at + number for number in range(len(values))]
    steps = [Send(key, value, offset) for value, offset in zip(values, offsets, strict=True)]
    return Operation(process, tuple(steps), outcome)


def polled(process, *places, key=KEY, outcome=Outcome.OK, moved=()) -> Operation:
    """A poll; a place is an offset and the value that was found there."""
    steps = tuple(Read(key, offset, value) for offset, value in places)
    return Operation(process, steps, outcome, moved=frozenset(moved))


def together(process, *operations, outcome=Outcome.OK) -> Operation:
    """One transaction of all that the operations hold."""
    steps = tuple(step for operation in operations for step in operation.steps)
    moved = frozenset().union(*(operation.moved for operation in operations))
    return Operation(process, steps, outcome, moved=moved)


def in_turn(*operations) -> list[Operation]:
    """One after the other: each ends before the next begins."""
    return [
        replace(operation, began=2 * number, ended=2 * number + 1)
        for number, operation in enumerate(operations)
    ]


def at_once(*operations) -> list[Operation]:
    """All at the same time."""
    return [
        replace(operation, began=number, ended=1000 + number)
        for number, operation in enumerate(operations)
    ]
