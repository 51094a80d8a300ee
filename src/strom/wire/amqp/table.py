"""Field tables: names with typed values, and arrays of such values.

The type letters are RabbitMQ's, which differ from the specification's for some integers:

    t  bool        b B  int, 1 byte     s u  int, 2 bytes    I i  int, 4 bytes    l L  int, 8 bytes
    f d  float     D    Decimal         S    str             x    bytes           T    Timestamp
    A  list        F    dict            V    None            (B, u and i are unsigned)

Integers are encoded as `l` and floats as `d`, as RabbitMQ does: no value is lost, but the letter of a
decoded value is. To change some entries of a table and keep the others byte for byte, use
`change_table`.

A string that is not UTF-8 is decoded with surrogate escapes, so that encoding gives the same bytes.
"""

import struct
from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

from strom.model.tables import Table, Timestamp
from strom.wire.amqp.protocol import AmqpError, ReplyCode

Buffer: TypeAlias = bytes | bytearray | memoryview

EMPTY_TABLE = bytes(4)
MAX_DEPTH = 64
"""The limit of nested tables and arrays."""
MAX_ELEMENTS = 50_000
"""The limit of values in a table, nested ones included."""
MAX_SHORT_STRING = 255

_UINT32 = struct.Struct(">I")
_DECIMAL = struct.Struct(">Bi")

_FIXED = {
    ord(letter): struct.Struct(">" + code)
    for letter, code in {
        "b": "b",
        "B": "B",
        "s": "h",
        "u": "H",
        "I": "i",
        "i": "I",
        "l": "q",
        "L": "q",
        "f": "f",
        "d": "d",
    }.items()
}


def decode_table(buffer: Buffer, position: int = 0) -> tuple[Table, int]:
    """Decode a table with its length; returns it and the position after it."""
    body, after = _body(buffer, position)
    return _Reader(body).whole(), after


def encode_table(table: Mapping[str, Any]) -> bytes:
    """The bytes of a table, with its length."""
    if not table:
        return EMPTY_TABLE
    out = bytearray(4)
    _write_entries(out, table, 1)
    _UINT32.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def change_table(
    raw: Buffer, changes: Mapping[str, Any] | None = None, *, without: Collection[str] = ()
) -> bytes:
    """A table with some entries set or removed, and all others unchanged, byte for byte."""
    changes = changes or {}
    body, _ = _body(raw, 0)
    kept = bytearray(4)
    for name, start, end in _Reader(body).spans():
        if name not in changes and name not in without:
            kept += body[start:end]
    _write_entries(kept, changes, 1)
    _UINT32.pack_into(kept, 0, len(kept) - 4)
    return bytes(kept)


def _body(buffer: Buffer, position: int) -> tuple[bytes, int]:
    start = position + 4
    if start > len(buffer):
        raise _malformed("truncated")
    (size,) = _UINT32.unpack_from(buffer, position)
    after = start + size
    if after > len(buffer):
        raise _malformed(f"length {size} exceeds the remaining {len(buffer) - start} bytes")
    return bytes(buffer[start:after]), after


def _malformed(what: str) -> AmqpError:
    return AmqpError(ReplyCode.SYNTAX_ERROR, f"malformed table: {what}")


class _Reader:
    """Decodes one table.

    A value that exceeds its table is detected after it was read: the position is then not the expected
    one. So a truncated slice does no harm.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._elements = 0

    def whole(self) -> Table:
        try:
            return self._table(0, len(self._data), 1)
        except (IndexError, struct.error):
            raise _malformed("truncated") from None

    def spans(self) -> list[tuple[str, int, int]]:
        """The name of every entry, with its start and end."""
        found, position, end = [], 0, len(self._data)
        try:
            while position < end:
                start = position
                name, position = self._name(position)
                _, position = self._value(position, 1)
                found.append((name, start, position))
        except (IndexError, struct.error):
            raise _malformed("truncated") from None
        if position != end:
            raise _malformed("an entry exceeds its table")
        return found

    def _name(self, position: int) -> tuple[str, int]:
        start = position + 1
        end = start + self._data[position]
        return self._data[start:end].decode("utf-8", "surrogateescape"), end

    def _table(self, position: int, end: int, depth: int) -> Table:
        self._check_depth(depth)
        table: Table = {}
        while position < end:
            name, position = self._name(position)
            table[name], position = self._value(position, depth)
        if position != end:
            raise _malformed("an entry exceeds its table")
        return table

    def _array(self, position: int, end: int, depth: int) -> list[Any]:
        self._check_depth(depth)
        array = []
        while position < end:
            value, position = self._value(position, depth)
            array.append(value)
        if position != end:
            raise _malformed("an element exceeds its array")
        return array

    def _check_depth(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise _malformed(f"nesting exceeds the limit of {MAX_DEPTH} levels")

    def _value(self, position: int, depth: int) -> tuple[Any, int]:
        self._elements += 1
        if self._elements > MAX_ELEMENTS:
            raise _malformed(f"more than the limit of {MAX_ELEMENTS} values")
        letter = self._data[position]
        position += 1
        fixed = _FIXED.get(letter)
        if fixed is not None:
            return fixed.unpack_from(self._data, position)[0], position + fixed.size
        if letter in b"SxFA":
            return self._sized(letter, position, depth)
        if letter == 0x74:  # t
            return self._data[position] != 0, position + 1
        if letter == 0x56:  # V
            return None, position
        if letter == 0x54:  # T
            seconds = self._data[position : position + 8]
            return Timestamp.from_bytes(seconds, "big"), position + 8
        if letter == 0x44:  # D
            return _decimal(*_DECIMAL.unpack_from(self._data, position)), position + 5
        raise _malformed(f"unknown type {chr(letter)!r}")

    def _sized(self, letter: int, position: int, depth: int) -> tuple[Any, int]:
        (size,) = _UINT32.unpack_from(self._data, position)
        start = position + 4
        end = start + size
        if end > len(self._data):
            raise _malformed(f"length {size} exceeds the remaining {len(self._data) - start} bytes")
        if letter == 0x53:  # S
            return self._data[start:end].decode("utf-8", "surrogateescape"), end
        if letter == 0x46:  # F
            return self._table(start, end, depth + 1), end
        if letter == 0x41:  # A
            return self._array(start, end, depth + 1), end
        return self._data[start:end], end


def _decimal(scale: int, digits: int) -> Any:
    from decimal import Decimal  # imported here: rarely needed, and slow to import

    sign = 1 if digits < 0 else 0
    return Decimal((sign, tuple(map(int, str(abs(digits)))), -scale))


# Encoding


def short_string(text: str) -> bytes:
    """The bytes of a short string, with its length."""
    data = text.encode("utf-8", "surrogateescape")
    if len(data) > MAX_SHORT_STRING:
        raise _unencodable(
            f"short string of {len(data)} bytes exceeds the limit of {MAX_SHORT_STRING} bytes"
        )
    return bytes((len(data),)) + data


def _unencodable(what: str) -> AmqpError:
    return AmqpError(ReplyCode.INTERNAL_ERROR, f"cannot be encoded: {what}")


def _write_entries(out: bytearray, table: Mapping[str, Any], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise _unencodable(f"table of more than {MAX_DEPTH} levels")
    for name, value in table.items():
        out += short_string(name)
        _write_value(out, value, depth)


def _write_value(out: bytearray, value: Any, depth: int) -> None:
    if isinstance(value, str):
        _write_sized(out, b"S", value.encode("utf-8", "surrogateescape"))
    elif isinstance(value, bool):
        out += b"t\x01" if value else b"t\x00"
    elif isinstance(value, int):
        _write_integer(out, value)
    elif isinstance(value, Mapping | list | tuple):
        _write_nested(out, value, depth + 1)
    elif isinstance(value, float):
        out += b"d" + struct.pack(">d", value)
    elif value is None:
        out += b"V"
    elif isinstance(value, bytes | bytearray | memoryview):
        _write_sized(out, b"x", value)
    else:
        _write_decimal(out, value)


def _write_sized(out: bytearray, letter: bytes, data: Buffer) -> None:
    out += letter
    out += _UINT32.pack(len(data))
    out += data


def _write_integer(out: bytearray, value: int) -> None:
    try:
        if isinstance(value, Timestamp):
            out += b"T" + struct.pack(">Q", value)
        else:
            out += b"l" + struct.pack(">q", value)
    except struct.error:
        raise _unencodable(f"{value} does not fit into 64 bits") from None


def _write_nested(
    out: bytearray, value: Mapping[str, Any] | list[Any] | tuple[Any, ...], depth: int
) -> None:
    start = len(out) + 5
    if isinstance(value, Mapping):
        out += b"F\x00\x00\x00\x00"
        _write_entries(out, value, depth)
    else:
        if depth > MAX_DEPTH:
            raise _unencodable(f"array of more than {MAX_DEPTH} levels")
        out += b"A\x00\x00\x00\x00"
        for item in value:
            _write_value(out, item, depth)
    _UINT32.pack_into(out, start - 4, len(out) - start)


def _write_decimal(out: bytearray, value: Any) -> None:
    from decimal import Decimal  # imported here: rarely needed, and slow to import

    if not isinstance(value, Decimal):
        raise _unencodable(f"a value of type {type(value).__name__}")
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or not -255 <= exponent <= 10:
        raise _unencodable(f"the decimal {value}")
    number = int("".join(map(str, digits))) * 10 ** max(0, exponent)
    try:
        out += b"D" + _DECIMAL.pack(max(0, -exponent), -number if sign else number)
    except struct.error:
        raise _unencodable(f"the decimal {value}") from None
