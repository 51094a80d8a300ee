"""The exceptions that a connector may raise, and what the runtime does about them.

UserError
└── ConnectError          the task fails; it is restarted with backoff
        ├── RetriableError    the external system is unavailable: the call is retried with backoff
        ├── PoisonRecord      one record cannot be processed: `errors.tolerance` decides
        └── InvalidSettings   the configuration is rejected, with a problem per setting
"""

from collections.abc import Mapping, Sequence
from typing import Any

from strom.model.errors import UserError


class ConnectError(UserError):
    """The task cannot continue; the message has the reason and what to do."""


class RetriableError(ConnectError):
    """The external system is unavailable or busy: the call had no effect and may be retried."""


class PoisonRecord(ConnectError):
    """A single record that can never be processed; `index` is its position in the call's records.

    A `SinkTask.put` that raises it has taken none of the call's records. Raised from `SourceTask.poll` it
    carries the record's source partition and offset, as a `SourceRecord` does: when the record is
    skipped, the offset is committed and reported by `SourceTask.delivered`. Without them the source is
    not notified.
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
    """A configuration with invalid settings: the problems by setting."""

    def __init__(self, problems: Mapping[str, Sequence[str]]) -> None:
        self.problems = {name: tuple(texts) for name, texts in problems.items()}
        super().__init__(" ".join(text for texts in self.problems.values() for text in texts))
