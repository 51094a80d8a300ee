"""The plugin's output is read as it is specified, and what is none is told, never crashed on."""

import struct
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.connect.connectors.postgres_changes.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    Relation,
    RelationColumn,
    Truncate,
    Update,
    decode,
)
from strom.connect.connectors.postgres_changes.protocol import ReplicationProtocolError

VALUES = st.lists(
    st.one_of(st.none(), st.just(UNCHANGED), st.text(max_size=10)), min_size=1, max_size=6
).map(tuple)


def written(values) -> bytes:
    """A row as the server writes it."""
    parts = [struct.pack("!H", len(values))]
    for value in values:
        if value is None:
            parts.append(b"n")
        elif value is UNCHANGED:
            parts.append(b"u")
        else:
            raw = value.encode()
            parts.append(b"t" + struct.pack("!I", len(raw)) + raw)
    return b"".join(parts)


def read(raw: bytes):
    return decode(memoryview(raw))


def test_transactions_begin_and_end() -> None:
    at = datetime(2000, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert read(b"B" + struct.pack("!QqI", 5, 10**6, 7)) == Begin(5, at, 7)
    assert read(b"C" + struct.pack("!BQQq", 0, 5, 9, 10**6)) == Commit(5, 9, at)


def test_tables_are_described() -> None:
    raw = b"R" + struct.pack("!I", 3) + b"public\0pets\0d" + struct.pack("!H", 2)
    raw += b"\1id\0" + struct.pack("!Ii", 23, -1) + b"\0name\0" + struct.pack("!Ii", 25, -1)
    columns = (RelationColumn("id", 23, -1, True), RelationColumn("name", 25, -1, False))
    assert read(raw) == Relation(3, "public", "pets", "d", columns)


@given(new=VALUES, old=VALUES)
def test_rows_are_read_as_they_were_written(new, old) -> None:
    oid = struct.pack("!I", 3)
    assert read(b"I" + oid + b"N" + written(new)) == Insert(3, new)
    assert read(b"U" + oid + b"N" + written(new)) == Update(3, None, False, new)
    assert read(b"U" + oid + b"K" + written(old) + b"N" + written(new)) == Update(
        3, old, False, new
    )
    assert read(b"U" + oid + b"O" + written(old) + b"N" + written(new)) == Update(3, old, True, new)
    assert read(b"D" + oid + b"K" + written(old)) == Delete(3, old, False)


def test_several_tables_are_truncated_at_once() -> None:
    assert read(b"T" + struct.pack("!IBII", 2, 1, 3, 4)) == Truncate((3, 4))


def test_what_says_nothing_of_rows_is_passed_over() -> None:
    assert read(b"Y" + struct.pack("!I", 1) + b"public\0mood\0") is None
    assert read(b"O" + struct.pack("!Q", 1) + b"elsewhere\0") is None


@given(st.binary(max_size=60))
def test_anything_else_is_reported(raw) -> None:
    try:
        decode(memoryview(raw))
    except ReplicationProtocolError:
        pass


def test_a_moment_beyond_all_years_is_reported() -> None:
    with pytest.raises(ReplicationProtocolError, match="timestamp"):
        read(b"B" + struct.pack("!QqI", 1, 2**62, 1))


@given(VALUES, st.data())
def test_a_cut_row_is_reported(values, data) -> None:
    whole = b"I" + struct.pack("!I", 3) + b"N" + written(values)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ReplicationProtocolError):
        read(whole[:cut])
