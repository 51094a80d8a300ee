"""The aborted transactions that ended in a segment, for readers of committed records only.

A reader that missed one would take aborted records for committed ones, so the file carries a
checksum. Without aborted transactions there is no file.
"""

import struct
from typing import NamedTuple

from strom.storage.checksummed import sign, unsign

_ENTRY = struct.Struct(">qqqq")


class AbortedTransaction(NamedTuple):
    """Where an aborted transaction lies: first record, marker; and the last stable offset then."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_aborted(transactions: list[AbortedTransaction]) -> bytes:
    """The index as it lies on disk."""
    return sign(b"".join(_ENTRY.pack(*each) for each in transactions))


def decode_aborted(data: bytes) -> list[AbortedTransaction]:
    """Read an index back; CorruptData unless it is exactly what was written."""
    return [AbortedTransaction._make(each) for each in _ENTRY.iter_unpack(unsign(data))]
