"""What is checked before a producer's batch enters a log, and what the broker writes into it.

The error codes are those that Apache Kafka 4.3.1 answers; it was asked. Where it answers
UNKNOWN_SERVER_ERROR, which makes Java's producer lose its sequence, a code that says more is used.

The usual case (the producer's own compression and time, a topic without compaction) is decided by
the header and the checksum alone. Only where a setting concerns single records are they looked at.
So a log may hold a batch whose records nobody can decode; but its header is plausible, always.
"""

from collections.abc import Sequence
from typing import NamedTuple

from strom.model.errors import ApiError, CorruptData, ErrorCode
from strom.model.settings import LONG_MAX
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
    Buffer,
    has_valid_checksum,
    read_header,
    stamp_append_time,
)
from strom.wire.kafka.compression import MAX_DECOMPRESSED_BYTES, MAX_EXPANSION, Codec
from strom.wire.kafka.records import MIN_RECORD_BYTES, RecordKey, assemble, read_body, read_keys

_MAX_CODEC = max(Codec)
_PLAIN_ATTRIBUTES = CODEC_MASK | TRANSACTIONAL_BIT
"""What most batches of clients have; anything else needs a closer look."""
_CLIENT_ATTRIBUTES = _PLAIN_ATTRIBUTES | APPEND_TIME_BIT


class Validated(NamedTuple):
    """A batch that may be appended: its header, and the bytes that belong to it.

    `buffer` is the buffer that was given, stamped in place, or a new one if the batch had to be
    compressed anew. Base offset and leader epoch are still to be stamped (`batch.stamp`).
    """

    header: BatchHeader
    buffer: bytearray | memoryview


def validate(
    batches: bytearray | memoryview,
    settings: TopicSettings,
    *,
    now_ms: int,
    from_client: bool = True,
) -> Validated:
    """Check one partition's produce data, exactly one batch, and stamp the append time if wanted.

    `batches` must be writable. With `from_client=False` (batches that the broker builds itself)
    what only clients may not do is let through: control batches, producers without a sequence.
    Raises ApiError with the code for the client. That zstd needs Produce version 7 or later is for
    the request's handler to check; sequences and epochs are for `ProducerStates.check`.
    """
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
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "The batch does not have its checksum.")
    _check_record_count(header)
    if from_client:
        _check_header_of_client(header)
    if header.codec > _MAX_CODEC:
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"There is no compression codec {header.codec}."
        )
    validated = Validated(header, batches)
    if settings.compression_type != "producer" or _records_matter(header, settings):
        validated = _look_inside(validated, settings, now_ms)
    if len(validated.buffer) > settings.segment_bytes:
        raise ApiError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"The batch has {len(validated.buffer)} bytes, more than a segment may have.",
        )
    if settings.stamps_append_time:
        return _stamp_append_time(validated, now_ms)
    if header.max_timestamp > now_ms + settings.message_timestamp_after_max_ms:
        _check_times(_read_inside(batches, header)[1], settings, now_ms)
    return validated


def _too_short(batches: bytearray | memoryview) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_RECORD, f"{len(batches)} bytes are too few for a record batch."
    )


def _only_batch(batches: bytearray | memoryview, header: BatchHeader) -> memoryview:
    """The one batch without the scraps behind it, or the error for data that is not one batch."""
    size = header.size_bytes
    if size < HEADER_BYTES or not 0 <= header.magic <= MAGIC:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "The data is not a record batch.")
    if header.magic != MAGIC:
        raise ApiError(
            ErrorCode.INVALID_RECORD, f"Only batches of format 2 are taken, not {header.magic}."
        )
    if size > len(batches):
        raise ApiError(ErrorCode.INVALID_RECORD, f"The batch is cut off, it has {size} bytes.")
    if len(batches) - size >= HEADER_BYTES:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            "A produce request holds exactly one record batch for a partition.",
        )
    return memoryview(batches)[:size]


def _check_record_count(header: BatchHeader) -> None:
    """Refuse a number of records that the offsets or the bytes of the batch have no room for.

    The offsets of the log move on by what the header claims, whatever the records are.
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
        f"{header.record_count} records do not fit the last offset {header.last_offset_delta}.",
    )


def _check_header_of_client(header: BatchHeader) -> None:
    """What Kafka checks of a client's batch, without its records."""
    if header.record_count != header.last_offset_delta + 1:
        raise _wrong_count(header)
    if header.base_offset != 0:
        raise ApiError(
            ErrorCode.INVALID_RECORD, f"The base offset must be 0, it is {header.base_offset}."
        )
    if header.producer_id != NO_PRODUCER_ID:
        if header.base_sequence < 0:
            raise ApiError(
                ErrorCode.INVALID_RECORD,
                f"Producer {header.producer_id} sent the sequence {header.base_sequence}.",
            )
    elif header.attributes & TRANSACTIONAL_BIT:
        raise ApiError(ErrorCode.INVALID_RECORD, "A transactional batch needs a producer id.")
    if header.attributes & ~_PLAIN_ATTRIBUTES:
        _check_unusual_attributes(header)


def _check_unusual_attributes(header: BatchHeader) -> None:
    if header.attributes & CONTROL_BIT:
        raise ApiError(ErrorCode.INVALID_RECORD, "Clients may not write control records.")
    if header.attributes & ~_CLIENT_ATTRIBUTES:
        # Kafka lets these pass; but the delete horizon would make compaction drop tombstones early.
        raise ApiError(ErrorCode.INVALID_RECORD, f"Unknown attributes {header.attributes:#x}.")
    # Kafka takes it off again on topics with create time. No producer sends it.
    raise ApiError(ErrorCode.INVALID_TIMESTAMP, "Only a broker may set the append time.")


def _records_matter(header: BatchHeader, settings: TopicSettings) -> bool:
    """Whether a setting of the topic concerns single records."""
    if header.is_control:
        return False
    if "compact" in settings.cleanup_policy:
        return True
    # The header tells the largest timestamp, but not the smallest.
    return settings.message_timestamp_before_max_ms != LONG_MAX and not settings.stamps_append_time


def _look_inside(validated: Validated, settings: TopicSettings, now_ms: int) -> Validated:
    """Check the records one by one, and compress them anew if the topic wants another codec."""
    header, buffer = validated
    if not (_records_matter(header, settings) or _target_codec(header, settings) != header.codec):
        return validated
    body, keys = _read_inside(buffer, header)
    if not header.is_control:
        _check_records(keys, settings, now_ms)
    codec = _target_codec(header, settings)
    if codec == header.codec:
        return validated
    rewritten = assemble(header, body, codec)
    if len(rewritten) > settings.max_message_bytes:
        raise _too_large(len(rewritten), settings)
    return Validated(read_header(rewritten), rewritten)


def _read_inside(
    buffer: bytearray | memoryview, header: BatchHeader
) -> tuple[Buffer, Sequence[RecordKey]]:
    """The records as plain bytes, and their keys."""
    try:
        body = read_body(buffer, 0, header)
        return body, read_keys(body, header)
    except CorruptData as error:
        raise ApiError(ErrorCode.INVALID_RECORD, f"The records cannot be read: {error}.") from None


def _target_codec(header: BatchHeader, settings: TopicSettings) -> int:
    if settings.compression_type == "producer" or header.is_control:
        return header.codec
    return Codec.named(settings.compression_type)


def _check_records(keys: Sequence[RecordKey], settings: TopicSettings, now_ms: int) -> None:
    if settings.compacted:
        keyless = [index for index, record in enumerate(keys) if record.key is None]
        if keyless:
            raise ApiError(
                ErrorCode.INVALID_RECORD,
                "Compacted topic cannot accept message without key.",
                records=keyless,
            )
    if not settings.stamps_append_time:
        _check_times(keys, settings, now_ms)


def _check_times(keys: Sequence[RecordKey], settings: TopicSettings, now_ms: int) -> None:
    earliest = now_ms - settings.message_timestamp_before_max_ms
    latest = now_ms + settings.message_timestamp_after_max_ms
    wrong = [
        index
        for index, record in enumerate(keys)
        if not earliest <= record.timestamp <= latest and record.timestamp != NO_TIMESTAMP
    ]
    if wrong:
        raise ApiError(
            ErrorCode.INVALID_TIMESTAMP,
            f"Timestamp {keys[wrong[0]].timestamp} is out of range, it should be within "
            f"[{earliest}, {latest}].",
            records=wrong,
        )


def _stamp_append_time(validated: Validated, now_ms: int) -> Validated:
    stamp_append_time(validated.buffer, 0, validated.header, now_ms)
    return Validated(read_header(validated.buffer), validated.buffer)


def _too_large(size: int, settings: TopicSettings) -> ApiError:
    return ApiError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"The batch has {size} bytes, more than max.message.bytes={settings.max_message_bytes}.",
    )
