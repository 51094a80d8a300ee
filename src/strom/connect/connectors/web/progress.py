"""How far an HTTP source has come, as it is kept in source offsets.

A source goes through its pages in **rounds**. A round that is not done is gone on with: its page is
asked for again, and as many records are passed over as were delivered of it. After a round the next
one asks for what is newer than the newest seen, or whether anything has changed at all.
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

MOST_AT_NEWEST = 20_000
"""How many records with the newest value are remembered, to know them when they come again.

An offset holds two such lists at most, of 16 bytes for each record: it must stay below the megabyte
that a message may have.
"""
DIGEST_BYTES = 12


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A place in a round, or between two."""

    page: Page = None
    index: int = 0
    """How many records of the page were delivered."""
    digest: str | None = None
    """Of the page's text, where only changed ones count."""
    done: bool = True
    """Whether the round has come to its end."""
    since: Any = None
    """The newest value that was seen before this round."""
    newest: Any = None
    """The newest value that was seen up to here."""
    at_newest: tuple[str, ...] = ()
    """Digests of the records that have the newest value."""
    at_since: tuple[str, ...] = ()
    """Digests of the records that were the newest before this round."""
    newest_overflows: bool = False
    """Whether more records have the newest value than are remembered: then none of them is."""
    since_overflows: bool = False
    """The same of those that were the newest before this round."""
    repeats: bool = False
    """Whether the page was already requested in this round, so that the round would never end."""
    etag: str | None = None
    modified: str | None = None

    @classmethod
    def of_offset(cls, offset: Mapping[str, Any]) -> Self:
        """The progress in a source offset."""
        names = {field.name for field in dataclasses.fields(cls)}
        known = {name: value for name, value in offset.items() if name in names}
        lists = {name: _digests(known.get(name)) for name in ("at_newest", "at_since")}
        return cls(**{**known, **lists})

    def offset(self) -> dict[str, Any]:
        """As a source offset: what differs from the beginning."""
        return {
            field.name: _packed(value) if isinstance(value, tuple) else value
            for field in dataclasses.fields(self)
            if (value := getattr(self, field.name)) != field.default or field.name == "done"
        }

    def next_round(self) -> "Progress":
        """At the beginning of the round after this."""
        return dataclasses.replace(
            self,
            page=None,
            index=0,
            since=self.newest,
            at_since=self.at_newest,
            since_overflows=self.newest_overflows,
        )


class Newest:
    """The newest value that was seen, and which records have it, while a page is gone through."""

    def __init__(self, at: Progress) -> None:
        self._value = at.newest
        self._records = list(at.at_newest)
        self._overflows = at.newest_overflows

    def __len__(self) -> int:
        return len(self._records)

    def see(self, value: Any, record: str) -> None:
        """Take note of a record with this value of the incremental field."""
        if value is None:
            return
        if self._value is None or is_newer(value, self._value):
            self._value, self._records, self._overflows = value, [], False
        if value == self._value and not self._overflows:
            self._records.append(record)
            if len(self._records) > MOST_AT_NEWEST:
                self._records, self._overflows = [], True

    def noted_in(self, progress: Progress) -> Progress:
        """The progress, with what was seen."""
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
        raise ConnectError(f"The source's offset holds no digests: {stored!r}. Reset it.") from None
    places = range(0, len(data), DIGEST_BYTES)
    return tuple(data[place : place + DIGEST_BYTES].hex() for place in places)


def is_newer(value: Any, than: Any) -> bool:
    """Whether one value of the incremental field comes after another."""
    try:
        return bool(value > than)
    except TypeError:
        return str(value) > str(than)


def digest_of(value: Any) -> str:
    """A short form by which a record or a page is known again."""
    data = value if isinstance(value, bytes) else json.dumps(value, sort_keys=True).encode()
    return blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


class Freshness:
    """Whether a record was not delivered in an earlier round, going by its incremental value.

    Many interfaces give those that are as new as the newest seen once more, and so they must: others
    with the same value may have come since. One that cannot be asked for what is newer gives all.
    """

    def __init__(self, at: Progress, *, server_filters: bool) -> None:
        self._since = at.since
        self._known = frozenset(at.at_since)
        self._overflows = at.since_overflows
        self._server_filters = server_filters

    def of(self, record: Any, value: Any) -> bool:
        """Whether it is fresh; TooManyAlike if that cannot be known."""
        if value is None or self._since is None:
            return True
        if value == self._since:
            if self._overflows:
                raise TooManyAlike(
                    f"More than {MOST_AT_NEWEST} records have the newest value {value!r}"
                )
            return digest_of(record) not in self._known
        return self._server_filters or is_newer(value, self._since)


class TooManyAlike(Exception):
    """More records have the newest value than are remembered."""
