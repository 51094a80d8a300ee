"""Keys and values of records in internal topics, as Kafka writes them.

Both are structs after an int16: in a value the version of its struct, in a key the type of the record
(or, where a topic has one type, the version of the key).
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from strom.wire.kafka.codec import decode as decode_struct
from strom.wire.kafka.codec import encode as encode_struct
from strom.wire.kafka.offsets_topic import version_of
from strom.wire.kafka.schema import Struct

S = TypeVar("S", bound=Struct)


def encode_key(record_type: int, key: Struct, version: int = 0) -> bytes:
    return record_type.to_bytes(2, "big") + encode_struct(key, version)


def decode_key(schema: type[S], key: bytes, version: int = 0) -> S:
    return decode_struct(schema, version, memoryview(key), 2)


def encode_value(value: Struct, version: int) -> bytes:
    return version.to_bytes(2, "big") + encode_struct(value, version)


def decode_value(schema: type[S], value: bytes) -> S:
    return decode_struct(schema, version_of(value), memoryview(value), 2)


@dataclass(frozen=True)
class RecordFormat(Generic[S]):
    """How records of one type are stored: some of their fields in the key, the rest in the value.

    If the first field of the rest is None, the record is a tombstone: it is stored without a value.
    """

    key_type: int
    record: type[Any]
    key: type[Struct]
    """Its fields are the first ones of the record, in order."""
    value: type[S]
    to_value: Callable[..., S]
    """From the rest of the record's fields."""
    from_value: Callable[[S], tuple[object, ...]]

    def encode(self, record: Any) -> tuple[bytes, bytes | None]:
        fields, rest = self._split(record)
        value = None if rest[0] is None else encode_value(self.to_value(*rest), 0)
        return encode_key(self.key_type, self.key(**fields)), value

    def decode(self, key: bytes, value: bytes | None) -> Any:
        """The record for a key and a value; ProtocolError if they are malformed."""
        found = decode_key(self.key, key)
        fields = [getattr(found, field.name) for field in self.key.SCHEMA.fields]
        rest = (None,) if value is None else self.from_value(decode_value(self.value, value))
        return self.record(*fields, *rest)

    def is_tombstone(self, record: Any) -> bool:
        return self._split(record)[1][0] is None

    def _split(self, record: Any) -> tuple[dict[str, Any], list[Any]]:
        fields = [getattr(record, field.name) for field in dataclasses.fields(record)]
        names = [field.name for field in self.key.SCHEMA.fields]
        return dict(zip(names, fields, strict=False)), fields[len(names) :]
