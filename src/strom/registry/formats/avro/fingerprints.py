"""The fingerprints of a canonical form that the Avro specification defines."""

import hashlib
from functools import cache

EMPTY = 0xC15D213AA4D7A795
"""The CRC of the empty string, and the polynomial of CRC-64-AVRO."""


def crc_64_avro(form: str) -> int:
    """Compute the 64-bit Rabin fingerprint that Avro's single-object encoding uses."""
    table = _table()
    crc = EMPTY
    for byte in form.encode():
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    return crc


def md5(form: str) -> str:
    """Compute the MD5 fingerprint in hexadecimal digits."""
    return hashlib.md5(form.encode(), usedforsecurity=False).hexdigest()


def sha256(form: str) -> str:
    """Compute the SHA-256 fingerprint in hexadecimal digits."""
    return hashlib.sha256(form.encode()).hexdigest()


@cache
def _table() -> list[int]:
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = (crc >> 1) ^ (EMPTY if crc & 1 else 0)
        table.append(crc)
    return table
