"""Validation of schema ids in records, for topics with `strom.schema.validation=true`.

The broker reads its own topic `_schemas` on demand: a schema that the registry has committed is known
here before any client can use it.
"""

import struct
from collections.abc import Callable
from uuid import UUID

from strom.broker.partition import HostedTopic
from strom.broker.replaying import committed_records
from strom.coordination.schemas.known_ids import KnownIds
from strom.model.errors import ApiError, CorruptData, ErrorCode
from strom.model.steps import Steps
from strom.storage.log import Log
from strom.storage.validation import MAX_INVALID_RECORDS, RECORDS_PER_STEP, undecodable
from strom.wire.kafka.batch import Buffer, has_valid_checksum, read_header
from strom.wire.kafka.records import Record, body_steps, record_slices

SCHEMAS_TOPIC = "_schemas"
MAGIC = 0
_HEAD = struct.Struct(">BI")
_READ_BYTES = 1 << 20


class SchemaIds:
    """The ids of registered schemas, and the validation of batches."""

    def __init__(self, find_topic: Callable[[str], HostedTopic | None]) -> None:
        self._find_topic = find_topic
        self._known = KnownIds()
        self._topic: UUID | None = None
        self._next = 0

    def check(self, batch: Buffer) -> Steps[None]:
        """Raise INVALID_RECORD, with the invalid records, unless all begin with the id of a schema."""
        header = read_header(batch)
        if header.is_control or not has_valid_checksum(batch, 0, header):
            return  # markers have no schema, and validation reports damage
        self._follow()
        wrong: dict[int, str] = {}
        seen = 0
        try:
            body = yield from body_steps(batch, 0, header)
            for records in record_slices(body, header, RECORDS_PER_STEP):
                for index, record in enumerate(records, seen):
                    if (reason := self._reason(record)) is not None:
                        wrong[index] = reason
                if len(wrong) >= MAX_INVALID_RECORDS:
                    break
                seen += len(records)
                yield None
        except CorruptData as error:
            raise undecodable(error) from None
        if wrong:
            reported = tuple(wrong)[:MAX_INVALID_RECORDS]
            raise ApiError(ErrorCode.INVALID_RECORD, wrong[reported[0]], records=reported)

    def _reason(self, record: Record) -> str | None:
        value = record.value
        if value is None:
            return None
        if len(value) < _HEAD.size or value[0] != MAGIC:
            return (
                "The topic has strom.schema.validation=true, but the value does not begin with a "
                "schema id. Use a serializer with a schema registry."
            )
        schema_id = _HEAD.unpack_from(value)[1]
        if schema_id in self._known:
            return None
        return (
            "The topic has strom.schema.validation=true, but no subject has a schema with id "
            f"{schema_id}. Register it first."
        )

    def _follow(self) -> None:
        """Read new committed records of the topic."""
        hosted = self._find_topic(SCHEMAS_TOPIC)
        if hosted is None or hosted.topic.id != self._topic:
            self._known, self._next = KnownIds(), 0
            self._topic = None if hosted is None else hosted.topic.id
        if hosted is not None:
            self._read(hosted.partitions[0].log)

    def _read(self, log: Log) -> None:
        while self._next < log.last_stable_offset:
            chunk = log.reader.read(
                max(self._next, log.start_offset), _READ_BYTES, committed_only=True
            )
            records, after = committed_records(chunk, self._next, log.partition)
            if after == self._next:  # compaction has removed the rest
                after = log.last_stable_offset
            self._next = after
            for record in records:
                self._known.apply(record.key, record.value)
