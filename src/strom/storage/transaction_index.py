"""The aborted transactions that ended in a segment, for read_committed consumers.

A consumer that misses one would read aborted records as committed ones, so the file has a checksum.
Without aborted transactions there is no file.
"""

import struct
from typing import NamedTuple

from strom.storage.checksummed import add_checksum, strip_checksum

_ENTRY = struct.Struct(">qqqq")


class AbortedTransaction(NamedTuple):
    """An aborted transaction: first record, marker, and the last stable offset at that time."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_aborted(transactions: list[AbortedTransaction]) -> bytes:
    return add_checksum(b"".join(_ENTRY.pack(*each) for each in transactions))


def decode_aborted(data: bytes) -> list[AbortedTransaction]:
    """Decode an index; CorruptData if it is damaged."""
    return [AbortedTransaction._make(each) for each in _ENTRY.iter_unpack(strip_checksum(data))]
