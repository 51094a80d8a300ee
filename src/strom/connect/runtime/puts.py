"""Puts records into a sink task; poison records are removed one by one."""

from collections.abc import Sequence
from typing import Any

from confluent_kafka import Message

from strom.connect.api import PoisonRecord, SinkRecord, SinkTask
from strom.connect.runtime.failures import Failures

AFTER_POISON = 500
"""The batch size after a poison record: each further one repeats the put of its whole batch."""


class Puts:
    def __init__(self, task: SinkTask[Any], failures: Failures) -> None:
        self._task = task
        self._failures = failures
        self.left: Sequence[SinkRecord] = ()
        """The records of the last call, without its poison records."""
        self.is_partial = False
        """Whether the task has taken only a part of them before it failed."""

    def put(self, records: Sequence[SinkRecord], messages: Sequence[Message]) -> None:
        """Put records that were converted from these messages."""
        self.left = records
        self.is_partial = False
        if not records:
            return
        # A task may store its position with every put: dead letters before it must be durable first.
        self._failures.flush()
        try:
            self._task.put(records)
        except PoisonRecord as error:
            self._put_without(error, _Origins(messages))

    def _put_without(self, poison: PoisonRecord, origins: "_Origins") -> None:
        """Put the rest in small batches: each poison record repeats the put of its batch."""
        left = self.left = list(self.left)
        executor = type(self._task).__qualname__
        start = 0
        while True:
            poison_record = left.pop(start + poison.index)
            self._failures.handle("TASK_PUT", executor, poison, origins.of(poison_record))
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
    """The messages of records; a transform may have changed a record's topic."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._found: dict[tuple[int, int], list[Message]] = {}
        for message in messages:
            self._found.setdefault((message.partition(), message.offset()), []).append(message)

    def of(self, record: SinkRecord) -> Message:
        found = self._found[record.partition, record.offset]
        return min(found, key=lambda one: one.topic() != record.origin.topic)
