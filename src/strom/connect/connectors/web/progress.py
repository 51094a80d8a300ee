"""How far an HTTP source has come, as it is kept in source offsets.

A source goes through its pages in **rounds**. A round that is not done is gone on with: its page is
asked for again, and as many records are passed over as were delivered of it. After a round the next
one asks for what is newer than the newest seen, or whether anything has changed at all.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Self

from strom.connect.connectors.web.paging import Page

MOST_AT_NEWEST = 200
"""How many records with the newest value are remembered, to know them when they come again."""


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
    etag: str | None = None
    modified: str | None = None

    @classmethod
    def of_offset(cls, offset: Mapping[str, Any]) -> Self:
        """The progress in a source offset."""
        names = {field.name for field in dataclasses.fields(cls)}
        known = {name: value for name, value in offset.items() if name in names}
        lists = {name: tuple(known.get(name, ())) for name in ("at_newest", "at_since")}
        return cls(**{**known, **lists})

    def offset(self) -> dict[str, Any]:
        """As a source offset: what differs from the beginning."""
        return {
            field.name: list(value) if isinstance(value, tuple) else value
            for field in dataclasses.fields(self)
            if (value := getattr(self, field.name)) != field.default or field.name == "done"
        }

    def next_round(self) -> "Progress":
        """At the beginning of the round after this."""
        return dataclasses.replace(
            self, page=None, index=0, since=self.newest, at_since=self.at_newest
        )

    def seeing(self, value: Any, record: str) -> "Progress":
        """After a record with this value of the incremental field."""
        if value is None:
            return self
        if self.newest is None or is_newer(value, self.newest):
            return dataclasses.replace(self, newest=value, at_newest=(record,))
        if value == self.newest:
            kept = (*self.at_newest, record)[-MOST_AT_NEWEST:]
            return dataclasses.replace(self, at_newest=kept)
        return self


def is_newer(value: Any, than: Any) -> bool:
    """Whether one value of the incremental field comes after another."""
    try:
        return bool(value > than)
    except TypeError:
        return str(value) > str(than)


def digest_of(value: Any) -> str:
    """A short form by which a record or a page is known again."""
    data = value if isinstance(value, bytes) else json.dumps(value, sort_keys=True).encode()
    return blake2b(data, digest_size=12).hexdigest()


def is_fresh(record: Any, value: Any, at: Progress, *, server_filters: bool) -> bool:
    """Whether a record was not delivered in an earlier round, going by its incremental value.

    Many interfaces give those that are as new as the newest seen once more, and so they must: others
    with the same value may have come since. One that cannot be asked for what is newer gives all.
    """
    if value is None or at.since is None:
        return True
    if value == at.since:
        return digest_of(record) not in at.at_since
    return server_filters or is_newer(value, at.since)
