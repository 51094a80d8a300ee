"""The four codecs of record batches, with an upper bound on what they may decompress to.

A few kilobytes can decompress to gigabytes (a "decompression bomb"), so every size that the data claims
is compared with a limit before memory is allocated.
"""

import struct
from collections.abc import Callable
from enum import IntEnum

import cramjam

from strom.model.errors import CorruptData
from strom.model.settings import MIB
from strom.wire.kafka.batch import Buffer

MAX_DECOMPRESSED_BYTES = 64 * MIB
"""The limit for any batch."""
MAX_EXPANSION = 32 * 1024
"""The highest ratio of any codec: a zstd block takes at least 4 bytes and holds at most 128 KiB."""

_FIRST_GUESS_BYTES = 64 * 1024
_GROWTH = 4
_GZIP_LEVEL = 6
_ZSTD_LEVEL = 3

# The framing of xerial's snappy-java: magic, two version numbers, length-prefixed blocks.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_LENGTH = struct.Struct(">i")


class Codec(IntEnum):
    """How the records of a batch are compressed: the lowest three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def named(cls, name: str) -> "Codec":
        """The codec with this name in `compression.type`."""
        return cls.NONE if name == "uncompressed" else cls[name.upper()]


def default_limit(compressed_bytes: int) -> int:
    """The decompressed limit for a client's batch: 100 times its size plus 1 MiB, at most 64 MiB."""
    return min(MAX_DECOMPRESSED_BYTES, 100 * compressed_bytes + MIB)


def decompress(codec: int, data: Buffer, limit: int | None = None) -> bytes:
    """Decompress; CorruptData if that fails or exceeds `limit` bytes (see `default_limit`)."""
    if limit is None:
        limit = default_limit(len(data))
    if codec == Codec.NONE:
        if len(data) > limit:
            raise _too_large(limit)
        return bytes(data)
    try:
        if codec == Codec.SNAPPY:
            return _decompress_snappy(data, limit)
        decompress_into, expected_bytes = _DECOMPRESSORS[codec]
    except KeyError:
        raise CorruptData(f"unknown compression codec {codec}") from None
    except (cramjam.DecompressionError, struct.error) as error:
        raise CorruptData(f"corrupt snappy data: {error}") from None
    return _decompress_in_steps(decompress_into, data, expected_bytes(data), limit)


def compress(codec: int, data: Buffer) -> bytes:
    """Compress, in the framing that the Java client and librdkafka write."""
    if codec == Codec.NONE:
        return bytes(data)
    return _COMPRESSORS[codec](data)


def _decompress_in_steps(
    decompress_into: Callable[[Buffer, bytearray], int], data: Buffer, expected: int, limit: int
) -> bytes:
    """Decompress into a buffer of the expected size, then into larger ones if it is too small.

    cramjam stops at the end of the given buffer and does not report reliably whether that or corrupt
    data was the reason, so every failure is retried until the limit is reached.
    """
    size = min(expected, limit)
    while True:
        unpacked = bytearray(size)
        try:
            length = decompress_into(data, unpacked)
        except cramjam.DecompressionError as error:
            if size < limit:
                size = min(limit, max(size, _FIRST_GUESS_BYTES) * _GROWTH)
                continue
            if expected > limit:
                raise _too_large(limit) from None
            raise CorruptData(
                f"compressed data is corrupt or exceeds the limit of {limit} bytes: {error}"
            ) from None
        return bytes(memoryview(unpacked)[:length])


def _guess(data: Buffer) -> int:
    return max(_FIRST_GUESS_BYTES, _GROWTH * len(data))


def _expected_gzip_bytes(data: Buffer) -> int:
    """The size in the trailer; only a hint, because it may be wrong and covers the last member only."""
    return struct.unpack_from("<I", data, len(data) - 4)[0] if len(data) >= 18 else 0


def _expected_lz4_bytes(data: Buffer) -> int:
    """The content size, if the frame's flags announce one."""
    if len(data) >= 14 and data[4] & 0b1000:
        return int(struct.unpack_from("<Q", data, 6)[0])
    return _guess(data)


def _expected_zstd_bytes(data: Buffer) -> int:
    """The frame content size: its width and place follow from the frame's descriptor byte."""
    if len(data) < 14:
        return _guess(data)
    descriptor = data[4]
    single_segment = descriptor >> 5 & 1
    dictionary_id_bytes = (0, 1, 2, 4)[descriptor & 0b11]
    position = 5 + (1 - single_segment) + dictionary_id_bytes
    width = descriptor >> 6
    if width == 0:
        return data[position] if single_segment else _guess(data)
    if width == 1:
        return int(struct.unpack_from("<H", data, position)[0]) + 256
    return int.from_bytes(data[position : position + 4 * (width - 1)], "little")


_DECOMPRESSORS: dict[int, tuple[Callable[[Buffer, bytearray], int], Callable[[Buffer], int]]] = {
    Codec.GZIP: (cramjam.gzip.decompress_into, _expected_gzip_bytes),
    Codec.LZ4: (cramjam.lz4.decompress_into, _expected_lz4_bytes),
    Codec.ZSTD: (cramjam.zstd.decompress_into, _expected_zstd_bytes),
}


def _decompress_snappy(data: Buffer, limit: int) -> bytes:
    """Decompress xerial framing (Java, librdkafka, Python clients) or one raw block (Go clients)."""
    data = memoryview(data)
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _decompress_snappy_block(data, limit)
    blocks = []
    position = len(_XERIAL_HEADER)
    while position < len(data):
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        position += _BLOCK_LENGTH.size
        if not 0 < length <= len(data) - position:
            raise CorruptData(f"snappy block of {length} bytes exceeds its stream")
        block = _decompress_snappy_block(data[position : position + length], limit)
        limit -= len(block)
        blocks.append(block)
        position += length
    return b"".join(blocks)


def _decompress_snappy_block(block: memoryview, limit: int) -> bytes:
    size = cramjam.snappy.decompress_raw_len(block)
    if size > limit:
        raise _too_large(limit)
    unpacked = bytearray(size)
    length = cramjam.snappy.decompress_raw_into(block, unpacked)
    return bytes(memoryview(unpacked)[:length])


def _compress_snappy(data: Buffer) -> bytes:
    data = memoryview(data)
    parts: list[bytes] = [_XERIAL_HEADER]
    for start in range(0, max(1, len(data)), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts.append(_BLOCK_LENGTH.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _compress_lz4(data: Buffer) -> bytes:
    # The Java client reads only frames whose blocks do not depend on one another.
    compressor = cramjam.lz4.Compressor(1, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))
    return bytes(compressor.finish())


_COMPRESSORS: dict[int, Callable[[Buffer], bytes]] = {
    Codec.GZIP: lambda data: bytes(cramjam.gzip.compress(data, _GZIP_LEVEL)),
    Codec.SNAPPY: _compress_snappy,
    Codec.LZ4: _compress_lz4,
    Codec.ZSTD: lambda data: bytes(cramjam.zstd.compress(data, _ZSTD_LEVEL)),
}


def _too_large(limit: int) -> CorruptData:
    return CorruptData(f"decompressed data exceeds the limit of {limit} bytes")
