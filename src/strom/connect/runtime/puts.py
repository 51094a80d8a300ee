"""Putting records into a sink task: those that it cannot take are set aside one by one."""

from collections.abc import Sequence
from typing import Any

from confluent_kafka import Message

from strom.connect.api import PoisonRecord, SinkRecord, SinkTask
from strom.connect.runtime.failures import Failures

AFTER_POISON = 500
"""So many records go together where one was bad, for each more costs a try at all of them."""


class Puts:
    """Puts records into one task."""

    def __init__(self, task: SinkTask[Any], failures: Failures) -> None:
        self._task = task
        self._failures = failures
        self.left: Sequence[SinkRecord] = ()
        """The records of the last call, without those that were set aside."""
        self.is_partial = False
        """Whether the task has taken a part of them only, as it then was away."""

    def put(self, records: Sequence[SinkRecord], messages: Sequence[Message]) -> None:
        """Put records, which these messages became."""
        self.left = records
        self.is_partial = False
        if not records:
            return
        # A task may store its position with every put: the dead letters before it come first.
        self._failures.flush()
        try:
            self._task.put(records)
        except PoisonRecord as error:
            self._put_without(error, _Origins(messages))

    def _put_without(self, poison: PoisonRecord, origins: "_Origins") -> None:
        """In small portions, for each bad record costs another try at all that come with it."""
        left = self.left = list(self.left)
        executor = type(self._task).__qualname__
        start = 0
        while True:
            bad = left.pop(start + poison.index)
            self._failures.handle("TASK_PUT", executor, poison, origins.of(bad))
            self._failures.flush()
            try:
                while start < len(left):
                    self._task.put(left[start : start + AFTER_POISON])
                    self.is_partial = True
                    start += AFTER_POISON
                return
            except PoisonRecord as another:
                poison = another


class _Origins:
    """The messages that became records; a transform may have changed a record's topic."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._found: dict[tuple[int, int], list[Message]] = {}
        for message in messages:
            self._found.setdefault((message.partition(), message.offset()), []).append(message)

    def of(self, record: SinkRecord) -> Message:
        """The message that became this record."""
        found = self._found[record.partition, record.offset]
        return min(found, key=lambda one: one.topic() != record.origin.topic)
