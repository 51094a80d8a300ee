"""Keys and values of the records of all group types in `__consumer_offsets`."""

from typing import Any

from strom.coordination.groups import records as classic
from strom.coordination.groups.consumer import records as consumer
from strom.coordination.groups.records import GroupRecord
from strom.coordination.groups.share import records as share
from strom.model.errors import CorruptData, ProtocolError
from strom.wire.kafka.offsets_topic import version_of

_FORMATS = (*consumer.FORMATS, *share.FORMATS)
_BY_RECORD = {one.record: one for one in _FORMATS}
_BY_TYPE = {one.key_type: one for one in _FORMATS}


def encode(record: Any) -> tuple[bytes, bytes | None]:
    found = _BY_RECORD.get(type(record))
    return classic.encode(record) if found is None else found.encode(record)


def decode(key: bytes | None, value: bytes | None) -> GroupRecord | None:
    """The record for a key and a value; None for an unknown type."""
    try:
        record_type = version_of(key or b"")
        if record_type in classic.KEY_VERSIONS:
            return classic.decode(record_type, key or b"", value)
        found = _BY_TYPE.get(record_type)
        return None if found is None else found.decode(key or b"", value)
    except ProtocolError as error:
        raise CorruptData(f"unreadable group record {key!r}: {error}") from error
