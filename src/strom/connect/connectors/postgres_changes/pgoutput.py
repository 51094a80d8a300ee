"""Decodes the output plugin `pgoutput` (protocol version 1): transactions, tables, rows."""

import struct
from datetime import datetime, timedelta
from enum import Enum
from typing import Final, NamedTuple

from strom.connect.connectors.postgres_changes.protocol import EPOCH, ReplicationProtocolError

_TEXT, _NULL, _UNTOUCHED = b"tnu"
_U32: Final = struct.Struct("!I")
_U16: Final = struct.Struct("!H")
_I32: Final = struct.Struct("!i")
_BEGIN: Final = struct.Struct("!QqI")
_COMMIT: Final = struct.Struct("!BQQq")


class _Unchanged(Enum):
    UNCHANGED = "unchanged"


UNCHANGED: Final = _Unchanged.UNCHANGED
"""An unchanged TOAST value, which the server does not send with an update."""

Value = str | None | _Unchanged
Tuple = tuple[Value, ...]


class Begin(NamedTuple):
    """The beginning of a transaction; all events up to its Commit belong to it."""

    commit_lsn: int
    at: datetime
    transaction: int


class Commit(NamedTuple):
    """The end of a transaction; the next one is after `end_lsn`."""

    commit_lsn: int
    end_lsn: int
    at: datetime


class RelationColumn(NamedTuple):
    """A column in the description of a table."""

    name: str
    type: int
    modifier: int
    identity: bool
    """Whether it is part of the table's replica identity."""


class Relation(NamedTuple):
    """A table as it was when the changes that follow were made."""

    oid: int
    schema: str
    name: str
    identity: str
    """REPLICA IDENTITY: d(efault), n(othing), f(ull), i(ndex)."""
    columns: tuple[RelationColumn, ...]


class Insert(NamedTuple):
    relation: int
    new: Tuple


class Update(NamedTuple):
    """An updated row; `old` is the full old row (`old_is_full`), only its key, or not sent."""

    relation: int
    old: Tuple | None
    old_is_full: bool
    new: Tuple


class Delete(NamedTuple):
    """A deleted row; `old` is the full row (`old_is_full`), or only its key."""

    relation: int
    old: Tuple
    old_is_full: bool


class Truncate(NamedTuple):
    relations: tuple[int, ...]


Event = Begin | Commit | Relation | Insert | Update | Delete | Truncate
Change = Insert | Update | Delete | Truncate


class _Reader:
    def __init__(self, body: memoryview) -> None:
        self._body = body
        self.at = 0

    def unpack(self, form: struct.Struct) -> tuple[int, ...]:
        values = form.unpack_from(self._body, self.at)
        self.at += form.size
        return values

    def byte(self) -> bytes:
        self.at += 1
        if self.at > len(self._body):
            raise ReplicationProtocolError("truncated event")
        return bytes(self._body[self.at - 1 : self.at])

    def text(self) -> str:
        raw = bytes(self._body[self.at :])
        end = raw.index(b"\0")
        self.at += end + 1
        return raw[:end].decode()

    def row(self) -> Tuple:
        body, at = self._body, self.at + _U16.size
        values: list[Value] = []
        for _ in range(_U16.unpack_from(body, self.at)[0]):
            kind = body[at]
            at += 1
            if kind == _TEXT:
                start = at + _U32.size
                at = start + _U32.unpack_from(body, at)[0]
                if at > len(body):
                    raise ReplicationProtocolError("truncated value")
                values.append(str(body[start:at], "utf-8"))
            elif kind == _NULL:
                values.append(None)
            elif kind == _UNTOUCHED:
                values.append(UNCHANGED)
            else:
                raise ReplicationProtocolError(f"unknown kind of value {kind}")
        self.at = at
        return tuple(values)


def decode(body: memoryview) -> Event | None:
    """Decode one event; None for those that are not about rows (types, origins, messages)."""
    reader = _Reader(body)
    kind = reader.byte()
    try:
        match kind:
            case b"I":
                return _insert(reader)
            case b"U":
                return _update(reader)
            case b"D":
                return _delete(reader)
            case b"B":
                lsn, micros, transaction = reader.unpack(_BEGIN)
                return Begin(lsn, _timestamp(micros), transaction)
            case b"C":
                _, lsn, end, micros = reader.unpack(_COMMIT)
                return Commit(lsn, end, _timestamp(micros))
            case b"R":
                return _relation(reader)
            case b"T":
                return _truncate(reader)
            case b"Y" | b"O" | b"M":
                return None
    except (struct.error, ValueError, IndexError) as error:
        raise ReplicationProtocolError(f"malformed event: {error}") from None
    raise ReplicationProtocolError(f"unknown kind of event {kind!r}")


def _insert(reader: _Reader) -> Insert:
    (relation,) = reader.unpack(_U32)
    if reader.byte() != b"N":
        raise ReplicationProtocolError("insert without a row")
    return Insert(relation, reader.row())


def _update(reader: _Reader) -> Update:
    (relation,) = reader.unpack(_U32)
    kind = reader.byte()
    old = None
    is_full = kind == b"O"
    if kind in {b"K", b"O"}:
        old = reader.row()
        kind = reader.byte()
    if kind != b"N":
        raise ReplicationProtocolError("update without a row")
    return Update(relation, old, is_full, reader.row())


def _delete(reader: _Reader) -> Delete:
    (relation,) = reader.unpack(_U32)
    kind = reader.byte()
    if kind not in {b"K", b"O"}:
        raise ReplicationProtocolError("delete without a row")
    return Delete(relation, reader.row(), kind == b"O")


def _truncate(reader: _Reader) -> Truncate:
    (count,) = reader.unpack(_U32)
    reader.byte()
    return Truncate(tuple([reader.unpack(_U32)[0] for _ in range(count)]))


def _relation(reader: _Reader) -> Relation:
    (oid,) = reader.unpack(_U32)
    schema, name, identity = reader.text(), reader.text(), reader.byte().decode()
    (count,) = reader.unpack(_U16)
    columns = []
    for _ in range(count):
        flags, column = reader.byte(), reader.text()
        (kind,), (modifier,) = reader.unpack(_U32), reader.unpack(_I32)
        columns.append(RelationColumn(column, kind, modifier, flags == b"\1"))
    return Relation(oid, schema or "pg_catalog", name, identity, tuple(columns))


def _timestamp(micros: int) -> datetime:
    try:
        return EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        raise ReplicationProtocolError(f"timestamp of {micros} µs is out of range") from None
