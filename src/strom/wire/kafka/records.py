"""The records inside a batch: reading them, and building batches from them.

Layout of one record, with every number but the attributes a zigzag varint: length of the rest,
attributes (one byte, unused), timestamp delta, offset delta, key length (-1: null) and key, value
length (-1: null) and value, number of headers, and the key and value of each header likewise.

The loops below are written for speed: most numbers fit into one byte, and that case is inlined. They
do not check every position against the end of the record. That is sound because positions only grow:
if a record ends exactly where its length says, no field in it exceeded the record.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from functools import partial
from typing import NamedTuple

from strom.model.errors import CorruptData, MalformedRecords
from strom.model.settings import MIB
from strom.model.steps import Offload, Steps
from strom.wire.kafka.batch import (
    APPEND_TIME_BIT,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_POSITION,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    checksum,
    pack_header,
)
from strom.wire.kafka.compression import compress, decompress, default_limit

MIN_RECORD_BYTES = 7
"""The smallest record: seven numbers of one byte each."""
SMALL_BYTES = 4 * MIB
SMALL_RECORDS = 20_000
"""Decompressed records up to this size and number are small: decoding them takes less than 0.1 s."""

_new = tuple.__new__  # a NamedTuple's own constructor takes twice as long
_CRC = struct.Struct(">I")
_MARKER_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")
_MARKER_VERSION = 0


class Record(NamedTuple):
    """One record; its offset and timestamp are absolute."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class RecordKey(NamedTuple):
    """What compaction needs of a record, and its position in the records' bytes.

    The bytes are [start, end); those after the timestamp delta begin at `tail`.
    """

    offset: int
    timestamp: int
    key: bytes | None
    has_value: bool
    start: int
    tail: int
    end: int


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1


class Marker(NamedTuple):
    """The end of a transaction, as its coordinator wrote it into a partition."""

    type: ControlType
    coordinator_epoch: int


def read_body(
    buffer: Buffer, position: int, header: BatchHeader, limit: int | None = None
) -> bytes:
    """The uncompressed bytes of all records of the batch at a position.

    MalformedRecords if they cannot be decompressed, exceed `limit` bytes (default:
    `compression.default_limit`), or are too few for the number of records.
    """
    start, end = position + HEADER_BYTES, position + header.size_bytes
    if not start <= end <= len(buffer):
        raise CorruptData(f"the batch at byte {position} is truncated")
    body = memoryview(buffer)[start:end]
    try:
        data = decompress(header.codec, body, limit) if header.codec else bytes(body)
    except CorruptData as error:
        raise MalformedRecords(str(error)) from None
    if not 0 <= header.record_count * MIN_RECORD_BYTES <= len(data):
        raise MalformedRecords(f"{header.record_count} records do not fit into {len(data)} bytes")
    return data


def body_steps(buffer: Buffer, position: int, header: BatchHeader) -> Steps[bytes]:
    """The same in steps. Small records are first decompressed as such: their size is known only then."""
    if not header.codec:
        return read_body(buffer, position, header)
    limit = default_limit(header.size_bytes - HEADER_BYTES)
    body: bytes | CorruptData
    if header.record_count <= SMALL_RECORDS:
        least = min(limit, SMALL_BYTES)
        body = yield Offload(partial(_try_read_body, buffer, position, header, least))
        if isinstance(body, bytes):
            return body
        if least == limit:
            raise body
    body = yield Offload(partial(_try_read_body, buffer, position, header, limit), large=True)
    if isinstance(body, CorruptData):
        raise body
    return body


def _try_read_body(
    buffer: Buffer, position: int, header: BatchHeader, limit: int
) -> bytes | CorruptData:
    """`read_body` for another thread: an error is returned instead of raised."""
    try:
        return read_body(buffer, position, header, limit)
    except CorruptData as error:
        # Their frames hold what was decompressed so far.
        error.__context__ = None
        return error.with_traceback(None)


def read_records(
    buffer: Buffer, position: int, header: BatchHeader, limit: int | None = None
) -> list[Record]:
    """All records of the batch at a position; MalformedRecords if anything about them is wrong.

    `limit` is for compressed records, see `read_body`. Header keys that are not UTF-8 keep their bytes
    as surrogates, so that encoding the record again gives the same bytes.
    """
    data = read_body(buffer, position, header, limit)
    return next(record_slices(data, header, header.record_count))


def record_slices(data: bytes, header: BatchHeader, size: int) -> Iterator[list[Record]]:
    """The records in `data`, which `read_body` returned for this header, in lists of `size` records.

    MalformedRecords as for `read_records`, when the wrong record is reached.
    """
    try:
        yield from _record_slices(data, header, size)
    except (IndexError, ValueError) as error:
        raise MalformedRecords(f"malformed record: {error}") from None


def _record_slices(data: bytes, header: BatchHeader, size: int) -> Iterator[list[Record]]:
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.has_append_time else None
    previous = -1
    at = 0
    left = header.record_count
    while True:
        records: list[Record] = []
        for _ in range(min(size, left)):
            n = data[at]
            at += 1
            if n > 127:
                n, at = _long_varint(data, at, n)
            end = at + (n >> 1 ^ -(n & 1))
            n = data[at + 1]  # at the byte before are the attributes
            at += 2
            if n > 127:
                n, at = _long_varint(data, at, n)
            timestamp = base_timestamp + (n >> 1 ^ -(n & 1)) if append_time is None else append_time
            n = data[at]
            at += 1
            if n > 127:
                n, at = _long_varint(data, at, n)
            delta = n >> 1 ^ -(n & 1)
            if delta <= previous:
                raise ValueError(f"offset delta {delta} after {previous}")
            previous = delta
            n = data[at]
            if n & 1 or n > 127:
                key, at = _bytes_at(data, at)
            else:
                start = at + 1
                at = start + (n >> 1)
                key = data[start:at]
            n = data[at]
            if n & 1 or n > 127:
                value, at = _bytes_at(data, at)
            else:
                start = at + 1
                at = start + (n >> 1)
                value = data[start:at]
            at += 1
            headers: tuple[tuple[str, bytes | None], ...] = ()
            if data[at - 1]:
                headers, at = _read_headers(data, at - 1)
            if at != end:
                raise ValueError(f"a record ends at byte {at}, but by its length at byte {end}")
            records.append(_new(Record, (base_offset + delta, timestamp, key, value, headers)))
        left -= len(records)
        if not left:
            _check_end(data, at, previous, header)
            yield records
            return
        yield records


def _bytes_at(data: bytes, at: int) -> tuple[bytes | None, int]:
    n = data[at]
    at += 1
    if n > 127:
        n, at = _long_varint(data, at, n)
    if n & 1:
        if n != 1:
            raise ValueError("negative length")
        return None, at
    end = at + (n >> 1)
    return data[at:end], end


def _read_headers(data: bytes, at: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    n = data[at]
    at += 1
    if n > 127:
        n, at = _long_varint(data, at, n)
    if n & 1:
        raise ValueError("negative number of headers")
    if n > len(data) - at:  # two bytes for each header, and n is twice their number
        raise ValueError(f"{n >> 1} headers exceed the record")
    headers = []
    for _ in range(n >> 1):
        key, at = _bytes_at(data, at)
        if key is None:
            raise ValueError("header without a key")
        value, at = _bytes_at(data, at)
        headers.append((key.decode("utf-8", "surrogateescape"), value))
    return tuple(headers), at


def _long_varint(data: bytes, at: int, first: int) -> tuple[int, int]:
    """The number (still in zigzag encoding) whose first byte was read; at most ten bytes and 64 bits."""
    byte = data[at]
    number = first - 128 + (byte << 7)
    if byte < 128:
        return number, at + 1
    number = first & 127
    for shift in range(7, 70, 7):
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            if number >> 64:
                break
            return number, at
    raise ValueError("varint exceeds 64 bits")


def _check_end(data: bytes, at: int, last_delta: int, header: BatchHeader) -> None:
    if at != len(data):
        raise ValueError(f"{len(data) - at} bytes after the last record")
    if last_delta > header.last_offset_delta:
        raise ValueError(
            f"offset delta {last_delta} exceeds the last offset delta {header.last_offset_delta}"
        )


def read_keys(data: bytes, header: BatchHeader) -> list[RecordKey]:
    """Keys and positions of the records in `data`, which `read_body` returned for this header.

    Values and headers are skipped. MalformedRecords as for `read_records`.
    """
    return next(key_slices(data, header, header.record_count))


def key_slices(data: bytes, header: BatchHeader, size: int) -> Iterator[list[RecordKey]]:
    """The same in lists of `size` records. MalformedRecords when the wrong record is reached."""
    try:
        yield from _key_slices(data, header, size)
    except (IndexError, ValueError) as error:
        raise MalformedRecords(f"malformed record: {error}") from None


def _key_slices(data: bytes, header: BatchHeader, size: int) -> Iterator[list[RecordKey]]:
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    previous = -1
    at = 0
    left = header.record_count
    while True:
        keys: list[RecordKey] = []
        for _ in range(min(size, left)):
            start = at
            n = data[at]
            at += 1
            if n > 127:
                n, at = _long_varint(data, at, n)
            end = at + (n >> 1 ^ -(n & 1))
            n = data[at + 1]
            at += 2
            if n > 127:
                n, at = _long_varint(data, at, n)
            timestamp = base_timestamp + (n >> 1 ^ -(n & 1))
            tail = at
            n = data[at]
            at += 1
            if n > 127:
                n, at = _long_varint(data, at, n)
            delta = n >> 1 ^ -(n & 1)
            if delta <= previous:
                raise ValueError(f"offset delta {delta} after {previous}")
            previous = delta
            key, at = _bytes_at(data, at)
            has_value = data[at] != 1
            if at + 2 > end:
                raise ValueError(f"a record exceeds its end at byte {end}")
            place = (base_offset + delta, timestamp, key, has_value, start, tail, end)
            keys.append(_new(RecordKey, place))
            at = end
        left -= len(keys)
        if not left:
            _check_end(data, at, previous, header)
            yield keys
            return
        yield keys


def build_batch(
    records: Sequence[Record],
    *,
    codec: int = 0,
    base_offset: int = 0,
    leader_epoch: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    append_time_ms: int | None = None,
) -> bytearray:
    """A batch with its checksum. The records' offsets must increase, from `base_offset` or later.

    `append_time_ms` makes it a batch with LogAppendTime, which holds for every record.
    """
    if not records or not base_offset <= records[0].offset <= records[-1].offset:
        raise ValueError("a batch needs records, in the order of their offsets")
    base_timestamp = records[0].timestamp
    attributes = codec | transactional * TRANSACTIONAL_BIT | control * CONTROL_BIT
    max_timestamp = max(record.timestamp for record in records)
    if append_time_ms is not None:
        attributes |= APPEND_TIME_BIT
        max_timestamp = append_time_ms
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=records[-1].offset - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return assemble(header, encode_records(records, base_offset, base_timestamp), codec)


def assemble(header: BatchHeader, body: Buffer, codec: int) -> bytearray:
    """A batch of this header and these uncompressed records, with length, codec and checksum set."""
    packed = compress(codec, body) if codec else body
    attributes = header.attributes & ~CODEC_MASK | codec
    length = HEADER_BYTES - LOG_OVERHEAD + len(packed)
    batch = bytearray(pack_header(header._replace(attributes=attributes, batch_length=length)))
    batch += packed
    _CRC.pack_into(batch, CRC_POSITION, checksum(batch, 0, len(batch)))
    return batch


def encode_records(records: Iterable[Record], base_offset: int, base_timestamp: int) -> bytearray:
    """The uncompressed bytes of records in a batch."""
    out = bytearray()
    previous = base_offset - 1
    for record in records:
        if record.offset <= previous:
            raise ValueError("offsets of records must increase")
        previous = record.offset
        one = bytearray(b"\0")
        _add_varint(one, record.timestamp - base_timestamp)
        _add_varint(one, record.offset - base_offset)
        _add_bytes(one, record.key)
        _add_bytes(one, record.value)
        _add_varint(one, len(record.headers))
        for key, value in record.headers:
            _add_bytes(one, key.encode("utf-8", "surrogateescape"))
            _add_bytes(one, value)
        _add_varint(out, len(one))
        out += one
    return out


def rebase_timestamp(out: bytearray, body: bytes, record: RecordKey, base_timestamp: int) -> None:
    """Append a record of `body` to `out`, with its timestamp delta relative to another base."""
    one = bytearray(b"\0")
    _add_varint(one, record.timestamp - base_timestamp)
    _add_varint(out, len(one) + record.end - record.tail)
    out += one
    out += memoryview(body)[record.tail : record.end]


def _add_varint(out: bytearray, number: int) -> None:
    number = number << 1 if number >= 0 else (-number << 1) - 1
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)


def _add_bytes(out: bytearray, data: bytes | None) -> None:
    if data is None:
        out.append(1)
    else:
        _add_varint(out, len(data))
        out += data


def build_marker(
    marker: Marker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int = NO_TIMESTAMP,
    base_offset: int = 0,
    leader_epoch: int = 0,
) -> bytearray:
    """The control batch that ends a producer's transaction in one partition."""
    record = Record(
        base_offset,
        timestamp,
        _MARKER_KEY.pack(_MARKER_VERSION, marker.type),
        _MARKER_VALUE.pack(_MARKER_VERSION, marker.coordinator_epoch),
    )
    return build_batch(
        [record],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def read_marker(buffer: Buffer, position: int, header: BatchHeader) -> Marker | None:
    """The marker in a control batch; None if compaction has emptied it or it is of another type."""
    if header.record_count == 0:
        return None
    record = read_records(buffer, position, header)[0]
    try:
        _, kind = _MARKER_KEY.unpack_from(record.key or b"")
        if kind not in (ControlType.ABORT, ControlType.COMMIT):
            return None
        _, coordinator_epoch = _MARKER_VALUE.unpack_from(record.value or b"")
    except struct.error:
        raise MalformedRecords(f"malformed control record at offset {record.offset}") from None
    return Marker(ControlType(kind), coordinator_epoch)
