"""Dead letter topics of share groups (KIP-1191): copies of archived records, with the reason.

A record is durable in the dead letter topic before it is archived: a crash in between may duplicate it,
but never loses it.
"""

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

from strom.broker.broker import Broker
from strom.broker.partition import HostedTopic, Partition
from strom.coordination.groups.share.partitions.share_partition import DeadReason, DeadRecords
from strom.model.errors import ApiError, DirectoryOffline, ErrorCode, MalformedRecords
from strom.model.group_settings import GroupSettings
from strom.storage.log import Appended, Log
from strom.wire.kafka.batch import BatchHeader, headers
from strom.wire.kafka.compression import MAX_DECOMPRESSED_BYTES
from strom.wire.kafka.records import Record, build_batch, read_records

PREFIX = "__dlq.errors."
MOST_BYTES_OF_A_BATCH = 256 * 1024
_READ_BYTES = 1 << 20

_REFUSALS = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_RECORD,
    }
)
"""Errors of a topic that rejects the record itself, so that another form of it may be accepted."""

_MESSAGES = {
    DeadReason.REJECTED: "The record was rejected by a consumer.",
    DeadReason.TOO_OFTEN: "The record has reached its delivery limit.",
}


class DeadLetterOrigin(NamedTuple):
    """The share group and partition of dead records."""

    group: str
    source: Partition


class DeadLetterWriter:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._creating = asyncio.Lock()

    async def write(
        self, origin: DeadLetterOrigin, dead: list[DeadRecords], settings: GroupSettings
    ) -> None:
        """Return when all records are durable in the group's dead letter topic; ApiError if that
        fails.
        """
        hosted = await self._topic(settings.dead_letter_topic)
        target = hosted.partitions[origin.source.log.partition.partition % len(hosted.partitions)]
        last = None
        for letters in _batches(_letters(origin, dead, copy=settings.dead_letter_copy)):
            last = self._append(target, letters)
        if last is not None:
            code = await target.wait_until_durable(last)
            if code is not ErrorCode.NONE:
                raise ApiError(code)

    async def _topic(self, name: str) -> HostedTopic:
        async with self._creating:
            hosted = self._broker.find_topic(name)
            if hosted is None and self._broker.settings.dead_letter_auto_create:
                partitions = self._broker.settings.num_partitions
                hosted = await self._broker.create_topic(name, partitions, {})
            if hosted is None:
                raise ApiError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"The dead letter topic {name} does not exist, and automatic creation is disabled.",
                )
            return hosted

    def _append(self, target: Partition, letters: list[Record]) -> Appended:
        """Append them in one batch, or else one by one in the best form that the topic accepts."""
        try:
            return self._append_batch(target, letters)
        except ApiError as error:
            if error.code not in _REFUSALS:
                raise
        return [self._append_alone(target, letter) for letter in letters][-1]

    def _append_alone(self, target: Partition, letter: Record) -> Appended:
        now_ms = self._broker.clock.now_ms()
        place = "-".join(str(_said(letter, name)) for name in ("topic", "partition", "offset"))
        fitting = letter._replace(timestamp=now_ms, key=letter.key or place.encode())
        # Headers with the position are better than no record at all.
        note = fitting._replace(key=place.encode(), value=b"", headers=_notes(letter))
        for form in (letter, fitting, note):
            try:
                return self._append_batch(target, [form])
            except ApiError as error:
                if error.code not in _REFUSALS or form is note:
                    raise
        raise AssertionError("the last form is either appended or rejected")

    def _append_batch(self, target: Partition, letters: list[Record]) -> Appended:
        now_ms = self._broker.clock.now_ms()
        numbered = [letter._replace(offset=index) for index, letter in enumerate(letters)]
        try:
            return target.append(build_batch(numbered), now_ms, from_client=False)
        except DirectoryOffline as error:
            self._broker.storage_failed(error)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from error


def _letters(origin: DeadLetterOrigin, dead: list[DeadRecords], *, copy: bool) -> Iterator[Record]:
    for one in dead:
        for record in _read(origin.source.log, one.first, one.last):
            note = _note(origin, record.offset, one)
            yield (
                record._replace(headers=record.headers + note)
                if copy
                else Record(record.offset, record.timestamp, None, None, note)
            )


def _note(
    origin: DeadLetterOrigin, offset: int, dead: DeadRecords
) -> tuple[tuple[str, bytes], ...]:
    partition = origin.source.log.partition
    said = {
        "topic": partition.topic,
        "partition": partition.partition,
        "offset": offset,
        "group": origin.group,
        "delivery.count": dead.deliveries,
        "message": _MESSAGES[dead.reason],
    }
    return tuple((PREFIX + name, str(value).encode()) for name, value in said.items())


def _notes(letter: Record) -> tuple[tuple[str, bytes | None], ...]:
    return tuple(header for header in letter.headers if header[0].startswith(PREFIX))


def _said(letter: Record, name: str) -> str:
    return (dict(_notes(letter)).get(PREFIX + name) or b"").decode()


def _read(log: Log, first: int, last: int) -> Iterator[Record]:
    """The records between two offsets that still exist."""
    offset = max(first, log.start_offset)
    while offset <= last:
        data = log.reader.read(offset, _READ_BYTES).data
        before = offset
        for position, header in headers(data):
            if not header.is_control:
                yield from _records_between(data, position, header, offset, last)
            offset = header.next_offset
            if offset > last:
                return
        if offset == before:
            return


def _records_between(
    data: bytes, position: int, header: BatchHeader, first: int, last: int
) -> list[Record]:
    """The records of a batch between two offsets; empty ones if they cannot be decoded.

    Of those the dead letter topic gets only the position.
    """
    try:
        records = read_records(data, position, header, MAX_DECOMPRESSED_BYTES)
    except MalformedRecords:
        offsets = range(max(first, header.base_offset), min(last, header.last_offset) + 1)
        records = [Record(offset, header.max_timestamp, None, None) for offset in offsets]
    return [record for record in records if first <= record.offset <= last]


def _batches(letters: Iterator[Record]) -> Iterator[list[Record]]:
    batch: list[Record] = []
    size = 0
    for letter in letters:
        size_of_one = len(letter.key or b"") + len(letter.value or b"")
        if batch and size + size_of_one > MOST_BYTES_OF_A_BATCH:
            yield batch
            batch, size = [], 0
        batch.append(letter)
        size += size_of_one
    if batch:
        yield batch
