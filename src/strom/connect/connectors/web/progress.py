"""The progress of an HTTP source, as it is stored in source offsets.

A source reads its pages in **rounds**. An interrupted round is continued: its page is requested again,
and the records of it that were delivered are skipped. The next round requests records newer than the
newest seen, or checks whether the response has changed.
"""

import base64
import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Self

from strom.connect.api import ConnectError
from strom.connect.connectors.web.paging import Page

MAX_AT_NEWEST = 20_000
"""How many records with the newest value are remembered, to recognise them when they come again.

An offset holds at most two such lists, with 16 bytes for each record: it must stay below 1 MB, the
default limit of a message.
"""
DIGEST_BYTES = 12


@dataclass(frozen=True, kw_only=True)
class RoundProgress:
    """A position in a round, or between two rounds."""

    page: Page = None
    index: int = 0
    """How many records of the page were delivered."""
    digest: str | None = None
    """The digest of the page, where unchanged ones are skipped."""
    done: bool = True
    """Whether the round has ended."""
    since: Any = None
    """The newest value before this round."""
    newest: Any = None
    """The newest value so far."""
    at_newest: tuple[str, ...] = ()
    """Digests of the records that have the newest value."""
    at_since: tuple[str, ...] = ()
    """Digests of the records with the newest value before this round."""
    newest_overflows: bool = False
    """Whether more records have the newest value than MAX_AT_NEWEST: then none is remembered."""
    since_overflows: bool = False
    """The same for the newest value before this round."""
    repeats: bool = False
    """Whether the page was already requested in this round, so that the round would never end."""
    etag: str | None = None
    modified: str | None = None

    @classmethod
    def from_offset(cls, offset: Mapping[str, Any]) -> Self:
        """Read a source offset; unknown fields of a later version are ignored."""
        names = {field.name for field in dataclasses.fields(cls)}
        known = {name: value for name, value in offset.items() if name in names}
        lists = {name: _digests(known.get(name)) for name in ("at_newest", "at_since")}
        return cls(**{**known, **lists})

    def to_offset(self) -> dict[str, Any]:
        """Write a source offset: the fields that differ from their defaults."""
        return {
            field.name: _packed(value) if isinstance(value, tuple) else value
            for field in dataclasses.fields(self)
            if (value := getattr(self, field.name)) != field.default or field.name == "done"
        }

    def next_round(self) -> "RoundProgress":
        """The beginning of the next round."""
        return dataclasses.replace(
            self,
            page=None,
            index=0,
            since=self.newest,
            at_since=self.at_newest,
            since_overflows=self.newest_overflows,
        )


class NewestRecords:
    """The newest value so far and the records that have it, while a page is read."""

    def __init__(self, at: RoundProgress) -> None:
        self._value = at.newest
        self._records = list(at.at_newest)
        self._overflows = at.newest_overflows

    def __len__(self) -> int:
        return len(self._records)

    def add(self, value: Any, record: str) -> None:
        """Note the digest of a record with this incremental value."""
        if value is None:
            return
        if self._value is None or is_newer(value, self._value):
            self._value, self._records, self._overflows = value, [], False
        if value == self._value and not self._overflows:
            self._records.append(record)
            if len(self._records) > MAX_AT_NEWEST:
                self._records, self._overflows = [], True

    def noted_in(self, progress: RoundProgress) -> RoundProgress:
        return dataclasses.replace(
            progress,
            newest=self._value,
            at_newest=tuple(self._records),
            newest_overflows=self._overflows,
        )


def _packed(digests: tuple[str, ...]) -> str:
    return base64.b64encode(bytes.fromhex("".join(digests))).decode()


def _digests(stored: str | list[str] | None) -> tuple[str, ...]:
    """The digests in an offset; version 0.1.0 stored them as a list."""
    if not isinstance(stored, str):
        return tuple(stored or ())
    try:
        data = base64.b64decode(stored, validate=True)
    except ValueError:
        raise ConnectError(
            f"The source's offset holds no digests: {stored!r}. Reset the connector's offsets."
        ) from None
    starts = range(0, len(data), DIGEST_BYTES)
    return tuple(data[start : start + DIGEST_BYTES].hex() for start in starts)


def is_newer(value: Any, than: Any) -> bool:
    """Whether an incremental value is greater than another; values of different types as text."""
    try:
        return bool(value > than)
    except TypeError:
        return str(value) > str(than)


def digest_of(value: Any) -> str:
    """A digest by which a record or a page is recognised."""
    data = value if isinstance(value, bytes) else json.dumps(value, sort_keys=True).encode()
    return blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


class DeliveredFilter:
    """Recognises records that were delivered in an earlier round, by their incremental value.

    Many interfaces return the records with the newest value again, and must: there may be new ones
    with the same value. An interface without incremental.parameter returns all records.
    """

    def __init__(self, at: RoundProgress, *, server_filters: bool) -> None:
        self._since = at.since
        self._known = frozenset(at.at_since)
        self._overflows = at.since_overflows
        self._server_filters = server_filters

    def is_new(self, record: Any, value: Any) -> bool:
        """Whether a record is yet to be delivered; TooManyTies if that is unknown."""
        if value is None or self._since is None:
            return True
        if value == self._since:
            if self._overflows:
                raise TooManyTies(
                    f"More than {MAX_AT_NEWEST} records have the newest value {value!r}"
                )
            return digest_of(record) not in self._known
        return self._server_filters or is_newer(value, self._since)


class TooManyTies(Exception):
    """More records have the newest value than are remembered."""
