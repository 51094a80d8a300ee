"""Validation of a producer's batch before it is appended, and what the broker changes in it.

The error codes are those of Apache Kafka 4.3.1, as observed. Where it returns UNKNOWN_SERVER_ERROR, which
makes Java's producer lose its sequence, a more specific code is used.

In the common case (the producer's compression and timestamps, a topic without compaction) the header
and the checksum suffice. Records are decoded only if a setting applies to single records. So a log may
hold a batch whose records cannot be decoded, but its header is always plausible.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from strom.model.errors import ApiError, CorruptData, ErrorCode
from strom.model.settings import KIB, LONG_MAX
from strom.model.steps import Offload, Steps, run_at_once
from strom.model.topic_settings import TopicSettings
from strom.wire.kafka.batch import (
    APPEND_TIME_BIT,
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    has_valid_checksum,
    read_header,
    stamp_append_time,
)
from strom.wire.kafka.compression import MAX_DECOMPRESSED_BYTES, MAX_EXPANSION, Codec
from strom.wire.kafka.records import (
    MIN_RECORD_BYTES,
    SMALL_BYTES,
    RecordKey,
    assemble,
    body_steps,
    key_slices,
)

_MAX_CODEC = max(Codec)
_PLAIN_ATTRIBUTES = CODEC_MASK | TRANSACTIONAL_BIT
"""The attributes of most client batches; others need more checks."""
_CLIENT_ATTRIBUTES = _PLAIN_ATTRIBUTES | APPEND_TIME_BIT
LONG_RECORDS = 500
LONG_BYTES = 64 * KIB
"""Batches with more records or bytes are validated in steps. Up to this size, decompression takes only a
few milliseconds, however much it expands."""
RECORDS_PER_STEP = 200
MAX_INVALID_RECORDS = 1000
"""How many invalid records of a batch are reported to the client: a batch may hold a million."""


class Validated(NamedTuple):
    """A valid batch: its header and its bytes.

    `buffer` is the given buffer, modified in place, or a new one if the batch was recompressed. Base
    offset and leader epoch are not assigned yet (`batch.stamp`).
    """

    header: BatchHeader
    buffer: bytearray | memoryview


class LongValidation(Exception):
    """Validating the records of this batch takes long: use `validation_steps`."""


def validate(
    batches: bytearray | memoryview,
    settings: TopicSettings,
    *,
    now_ms: int,
    from_client: bool = True,
    at_once: bool = True,
) -> Validated:
    """Validate one partition's produce data, exactly one batch, and set LogAppendTime if configured.

    `batches` must be writable. `from_client=False` (batches that the broker builds) allows control
    batches and producers without a sequence. `at_once=False` raises LongValidation if many records must
    be decoded. Raises ApiError with the code for the client. The request's handler checks that zstd has
    Produce version 7 or later (KIP-110); `ProducerStates.check` checks sequences and epochs.
    """
    validated = _check_batch(batches, settings, from_client)
    if _needs_records(validated.header, settings, now_ms):
        if not at_once and is_long(validated.header):
            raise LongValidation
        validated = run_at_once(_record_steps(validated, settings, now_ms))
    return complete(validated, settings, now_ms)


def validation_steps(
    batches: bytearray | memoryview, settings: TopicSettings, now_ms: int
) -> Steps[Validated]:
    """Validate a client's batch as `validate` does, in small steps; the rest is left to `complete`."""
    validated = _check_batch(batches, settings, from_client=True)
    if _needs_records(validated.header, settings, now_ms):
        validated = yield from _record_steps(validated, settings, now_ms)
    return validated


def complete(validated: Validated, settings: TopicSettings, now_ms: int) -> Validated:
    """Set LogAppendTime if configured, just before the batch is appended."""
    if len(validated.buffer) > settings.segment_bytes:
        raise ApiError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"Batch of {len(validated.buffer)} bytes exceeds segment.bytes={settings.segment_bytes}.",
        )
    if settings.stamps_append_time:
        return _stamp_append_time(validated, now_ms)
    return validated


def is_long(header: BatchHeader) -> bool:
    """Whether decoding the records may take more than a few milliseconds."""
    return header.record_count > LONG_RECORDS or header.size_bytes > LONG_BYTES


def _check_batch(
    batches: bytearray | memoryview, settings: TopicSettings, from_client: bool
) -> Validated:
    """The checks of header and checksum."""
    size = len(batches)
    if size < HEADER_BYTES:
        raise _too_short(batches)
    header = read_header(batches)
    if size != LOG_OVERHEAD + header.batch_length or header.magic != MAGIC:
        batches = _only_batch(batches, header)
        size = len(batches)
    if size > settings.max_message_bytes:
        raise _too_large(size, settings)
    if not has_valid_checksum(batches, 0, header):
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "The checksum of the batch is invalid.")
    _check_record_count(header)
    if from_client:
        _check_header_of_client(header)
    if header.codec > _MAX_CODEC:
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression codec {header.codec}."
        )
    return Validated(header, batches)


def _too_short(batches: bytearray | memoryview) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_RECORD,
        f"{len(batches)} bytes are less than the header of a record batch.",
    )


def _only_batch(batches: bytearray | memoryview, header: BatchHeader) -> memoryview:
    """The only batch without trailing bytes; ApiError for data that is not exactly one batch."""
    size = header.size_bytes
    if size < HEADER_BYTES or not 0 <= header.magic <= MAGIC:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "The data is not a record batch.")
    if header.magic != MAGIC:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"Record format {header.magic} is not supported; use format 2.",
        )
    if size > len(batches):
        raise ApiError(ErrorCode.INVALID_RECORD, f"The batch of {size} bytes is truncated.")
    if len(batches) - size >= HEADER_BYTES:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            "A produce request must hold exactly one record batch per partition.",
        )
    return memoryview(batches)[:size]


def _check_record_count(header: BatchHeader) -> None:
    """Reject a record count that does not fit the offsets or the bytes of the batch.

    The log's offsets advance by what the header claims, and the records may never be decoded.
    """
    count = header.record_count
    if not 0 < count <= header.last_offset_delta + 1:
        raise _wrong_count(header)
    body_bytes = header.size_bytes - HEADER_BYTES
    most_bytes = (
        min(body_bytes * MAX_EXPANSION, MAX_DECOMPRESSED_BYTES) if header.codec else body_bytes
    )
    if count * MIN_RECORD_BYTES > most_bytes:
        raise ApiError(
            ErrorCode.INVALID_RECORD, f"{count} records do not fit into {body_bytes} bytes."
        )


def _wrong_count(header: BatchHeader) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_RECORD,
        f"{header.record_count} records do not match the last offset delta {header.last_offset_delta}.",
    )


def _check_header_of_client(header: BatchHeader) -> None:
    """The checks of Kafka on a client's batch that need no records."""
    if header.record_count != header.last_offset_delta + 1:
        raise _wrong_count(header)
    if header.base_offset != 0:
        raise ApiError(
            ErrorCode.INVALID_RECORD, f"The base offset must be 0, not {header.base_offset}."
        )
    if header.producer_id != NO_PRODUCER_ID:
        if header.base_sequence < 0:
            raise ApiError(
                ErrorCode.INVALID_RECORD,
                f"Producer {header.producer_id} sent the invalid sequence {header.base_sequence}.",
            )
    elif header.attributes & TRANSACTIONAL_BIT:
        raise ApiError(ErrorCode.INVALID_RECORD, "A transactional batch needs a producer id.")
    if header.attributes & ~_PLAIN_ATTRIBUTES:
        _check_unusual_attributes(header)


def _check_unusual_attributes(header: BatchHeader) -> None:
    if header.attributes & CONTROL_BIT:
        raise ApiError(ErrorCode.INVALID_RECORD, "Clients may not write control records.")
    if header.attributes & ~_CLIENT_ATTRIBUTES:
        # Kafka accepts these, but a delete horizon would make compaction remove tombstones early.
        raise ApiError(ErrorCode.INVALID_RECORD, f"Unknown attributes {header.attributes:#x}.")
    # Kafka clears the bit on topics with CreateTime. No producer sends it.
    raise ApiError(ErrorCode.INVALID_TIMESTAMP, "Clients may not set LogAppendTime.")


def _needs_records(header: BatchHeader, settings: TopicSettings, now_ms: int) -> bool:
    """Whether a setting of the topic applies to single records."""
    if header.is_control:
        return False
    if settings.compression_type != "producer" and _target_codec(header, settings) != header.codec:
        return True
    if "compact" in settings.cleanup_policy:
        return True
    if settings.stamps_append_time:
        return False
    # The header has the largest timestamp, but not the smallest.
    return (
        settings.message_timestamp_before_max_ms != LONG_MAX
        or header.max_timestamp > now_ms + settings.message_timestamp_after_max_ms
    )


def _record_steps(validated: Validated, settings: TopicSettings, now_ms: int) -> Steps[Validated]:
    """Validate the records one by one, and recompress them if the topic has another codec."""
    header, buffer = validated
    invalid = _InvalidRecords(settings, now_ms)
    try:
        body = yield from body_steps(buffer, 0, header)
        for keys in key_slices(body, header, RECORDS_PER_STEP):
            invalid.add(keys)
            yield None
    except CorruptData as error:
        raise undecodable(error) from None
    invalid.check()
    codec = _target_codec(header, settings)
    if codec == header.codec:
        return validated
    rewritten = yield Offload(partial(assemble, header, body, codec), len(body) > SMALL_BYTES)
    if len(rewritten) > settings.max_message_bytes:
        raise _too_large(len(rewritten), settings)
    return Validated(read_header(rewritten), rewritten)


def undecodable(error: CorruptData) -> ApiError:
    """The error for a client whose records cannot be decoded."""
    return ApiError(ErrorCode.INVALID_RECORD, f"The records cannot be decoded: {error}.")


def _target_codec(header: BatchHeader, settings: TopicSettings) -> int:
    if settings.compression_type == "producer":
        return header.codec
    return Codec.named(settings.compression_type)


class _InvalidRecords:
    """Collects the records of a batch that its topic does not accept."""

    def __init__(self, settings: TopicSettings, now_ms: int) -> None:
        self._needs_keys = settings.compacted
        self._needs_times = not settings.stamps_append_time
        self._earliest = now_ms - settings.message_timestamp_before_max_ms
        self._latest = now_ms + settings.message_timestamp_after_max_ms
        self._seen = 0
        self._keyless: list[int] = []
        self._mistimed: list[int] = []
        self._first_mistimed = NO_TIMESTAMP

    def add(self, keys: Sequence[RecordKey]) -> None:
        """Look at the next records; ApiError as soon as too many are invalid to report more of them."""
        first, earliest, latest = self._seen, self._earliest, self._latest
        self._seen += len(keys)
        if self._needs_keys:
            self._keyless += [at for at, one in enumerate(keys, first) if one.key is None]
        if self._needs_times:
            mistimed = [
                at
                for at, one in enumerate(keys, first)
                if not earliest <= one.timestamp <= latest and one.timestamp != NO_TIMESTAMP
            ]
            if mistimed and not self._mistimed:
                self._first_mistimed = keys[mistimed[0] - first].timestamp
            self._mistimed += mistimed
        if max(len(self._keyless), len(self._mistimed)) >= MAX_INVALID_RECORDS:
            self.check()

    def check(self) -> None:
        """ApiError with the invalid records, if there are any."""
        if self._keyless:
            raise ApiError(
                ErrorCode.INVALID_RECORD,
                "Compacted topic cannot accept message without key.",  # Kafka's text
                records=self._keyless[:MAX_INVALID_RECORDS],
            )
        if self._mistimed:
            raise ApiError(
                ErrorCode.INVALID_TIMESTAMP,
                f"Timestamp {self._first_mistimed} is outside the range "
                f"[{self._earliest}, {self._latest}].",
                records=self._mistimed[:MAX_INVALID_RECORDS],
            )


def _stamp_append_time(validated: Validated, now_ms: int) -> Validated:
    stamp_append_time(validated.buffer, 0, validated.header, now_ms)
    return Validated(read_header(validated.buffer), validated.buffer)


def _too_large(size: int, settings: TopicSettings) -> ApiError:
    return ApiError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"Batch of {size} bytes exceeds max.message.bytes={settings.max_message_bytes}.",
    )
