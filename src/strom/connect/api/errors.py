"""What a connector may raise, and what the runtime does about it.

UserError
└── ConnectError          the task fails; it is restarted with backoff
    ├── RetriableError    the other side is away: the same call is made again after a while
    ├── PoisonRecord      one record cannot be handled: it goes where `errors.tolerance` says
    └── InvalidSettings   refused before anything starts, field by field
"""

from collections.abc import Mapping, Sequence
from typing import Any

from strom.model.errors import UserError


class ConnectError(UserError):
    """The task cannot go on; the message says why and what to do."""


class RetriableError(ConnectError):
    """The other side is away or busy: nothing was taken over, the same call may be made again."""


class PoisonRecord(ConnectError):
    """A single record that can never be handled; `index` is its place in the records of the call.

    A `SinkTask.put` that raises it has taken over none of the call's records. Raised from
    `SourceTask.poll` it carries the record's source partition and offset, as a `SourceRecord` does:
    when the record is skipped, the offset is stored and reported by `SourceTask.delivered`. Without
    them the source never learns that it was skipped.
    """

    def __init__(
        self,
        message: str,
        index: int = 0,
        *,
        source_partition: Mapping[str, Any] | None = None,
        source_offset: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.index = index
        self.source_partition = source_partition
        self.source_offset = source_offset


class InvalidSettings(ConnectError):
    """Settings that cannot be: the problems of each, by its name."""

    def __init__(self, problems: Mapping[str, Sequence[str]]) -> None:
        self.problems = {name: tuple(texts) for name, texts in problems.items()}
        super().__init__(" ".join(text for texts in self.problems.values() for text in texts))
