"""Keys and values of the records of all group types.

Every type has a module with RECORDS (types), KEY_VERSIONS (the versions of its keys), `encode` and
`decode`.
"""

from typing import Any, Protocol

from strom.coordination.groups import records as classic
from strom.coordination.groups.consumer import records as consumer
from strom.coordination.groups.records import GroupRecord
from strom.coordination.groups.share import records as share
from strom.model.errors import CorruptData, ProtocolError
from strom.wire.kafka.offsets_topic import version_of


class RecordFormat(Protocol):
    @property
    def RECORDS(self) -> tuple[type[Any], ...]:  # noqa: N802 - a constant of a module
        ...

    @property
    def KEY_VERSIONS(self) -> tuple[int, ...]:  # noqa: N802 - a constant of a module
        ...

    def encode(self, record: Any, /) -> tuple[bytes, bytes | None]: ...

    def decode(self, version: int, key: bytes, value: bytes | None, /) -> GroupRecord: ...


MODULES: tuple[RecordFormat, ...] = (classic, consumer, share)

_BY_TYPE = {kind: module for module in MODULES for kind in module.RECORDS}
_BY_KEY = {version: module for module in MODULES for version in module.KEY_VERSIONS}


def encode(record: GroupRecord) -> tuple[bytes, bytes | None]:
    return _BY_TYPE[type(record)].encode(record)


def decode(key: bytes | None, value: bytes | None) -> GroupRecord | None:
    """The record for a key and a value; None for an unknown type."""
    try:
        version = version_of(key or b"")
        module = _BY_KEY.get(version)
        return None if module is None else module.decode(version, key or b"", value)
    except ProtocolError as error:
        raise CorruptData(f"unreadable group record {key!r}: {error}") from error
