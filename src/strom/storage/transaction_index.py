"""The aborted transactions that ended in a segment, for readers of committed records only.

A reader that missed one would take aborted records for committed ones, so the file is checksummed
as a whole: number of entries, the entries, CRC-32C. Without entries there is no file.
"""

import struct
from typing import NamedTuple

from crc32c import crc32c

from strom.model.errors import CorruptData

_COUNT = struct.Struct(">I")
_ENTRY = struct.Struct(">qqqq")
_CRC = struct.Struct(">I")


class AbortedTransaction(NamedTuple):
    """Where an aborted transaction lies: first record, marker; and the last stable offset then."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_aborted(transactions: list[AbortedTransaction]) -> bytes:
    """The index as it lies on disk."""
    body = _COUNT.pack(len(transactions)) + b"".join(_ENTRY.pack(*each) for each in transactions)
    return body + _CRC.pack(crc32c(body))


def decode_aborted(data: bytes) -> list[AbortedTransaction]:
    """Read an index back; CorruptData unless it is exactly what was written."""
    body, crc = data[: -_CRC.size], data[-_CRC.size :]
    if len(data) < _COUNT.size + _CRC.size or _CRC.pack(crc32c(body)) != crc:
        raise CorruptData("transaction index fails its checksum")
    if len(body) != _COUNT.size + _COUNT.unpack_from(body)[0] * _ENTRY.size:
        raise CorruptData("transaction index has the wrong length")
    return [AbortedTransaction._make(each) for each in _ENTRY.iter_unpack(body[_COUNT.size :])]
