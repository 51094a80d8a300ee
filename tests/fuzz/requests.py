"""Requests made of the declarations, and what a bad day does to them. All chance comes from a seed."""

import random
import struct
from typing import Any

from strom.server.kafka import handlers
from strom.server.kafka.api import HANDLERS
from strom.wire.kafka.codec import encode
from strom.wire.kafka.records import Record, build_batch
from strom.wire.kafka.schema import ArrayOf, Field, Request, Scalar, Struct

handlers.load()

API_VERSIONS = 18
TOPICS = ["fuzzed-a", "fuzzed-b", "fuzzed-compacted", "unknown", "", "..", "a" * 249, "ä/\0"]
TEXTS = [*TOPICS, "1", "retention.ms", "cleanup.policy", "compact", "-1", "99999999999999999999"]
INTEGERS = {
    Scalar.INT8: (-128, 127),
    Scalar.INT16: (-(2**15), 2**15 - 1),
    Scalar.INT32: (-(2**31), 2**31 - 1),
    Scalar.INT64: (-(2**63), 2**63 - 1),
}
LENGTHS = [-(2**31), -2, -1, 0, 1, 127, 128, 32_767, 2**16, 2**24, 2**31 - 1]


class Generator:
    """Makes frames: valid ones, and such that were mutated."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.cases = [
            (found.request, version)
            for found in HANDLERS.values()
            for version in range(found.versions.first, found.versions.last + 1)
        ]
        self.topic_ids: list[bytes] = [bytes(16)]

    def frame(self, number: int) -> bytes:
        """The frame of that number, its length in front; every api and version has its turn."""
        request, version = self.cases[number % len(self.cases)]
        body = self._body(request, version)
        if self.chance.random() < 0.6:
            body = self._mutated(body)
        return self._with_length(body)

    def _body(self, request: type[Request], version: int) -> bytes:
        schema = request.SCHEMA
        header = struct.pack(">hhi", schema.api_key, version, self.chance.randrange(2**31))
        client_id = self.chance.choice([b"\xff\xff", b"\0\0", b"\0\4fuzz"])
        tags = b"\0" if version in schema.flexible else b""
        return header + client_id + tags + encode(self._struct(request, version), version)

    def _struct(self, cls: type[Struct], version: int) -> Any:
        return cls(
            **{
                field.name: self._field(field, version)
                for field in cls.SCHEMA.fields
                if version in field.versions
            }
        )

    def _field(self, field: Field, version: int) -> Any:
        may_be_null = version in field.nullable or (
            field.tag is not None and isinstance(field.type, type)
        )
        if may_be_null and self.chance.random() < 0.2:
            return None
        if isinstance(field.type, ArrayOf):
            element = field.type.element
            return [self._value(element, version) for _ in range(self.chance.randrange(3))]
        return self._value(field.type, version)

    def _value(self, kind: "Scalar | ArrayOf | type[Struct]", version: int) -> Any:
        if not isinstance(kind, Scalar):
            assert isinstance(kind, type)
            return self._struct(kind, version)
        if kind in INTEGERS:
            low, high = INTEGERS[kind]
            usual = [-1, 0, 0, 0, 1, 1, 2, 5]
            return self.chance.choice([*usual, low, high, self.chance.randint(low, high)])
        match kind:
            case Scalar.BOOLEAN:
                return self.chance.random() < 0.5
            case Scalar.UUID:
                return self.chance.choice([*self.topic_ids, self.chance.randbytes(16)])
            case Scalar.STRING:
                return self.chance.choice(TEXTS)
            case Scalar.BYTES:
                return self.chance.randbytes(self.chance.randrange(40))
            case _:
                return self._records()

    def _records(self) -> bytes:
        records = [
            Record(offset, 1_700_000_000_000, self.chance.choice([None, b"k"]), b"v" * 20)
            for offset in range(self.chance.randrange(1, 4))
        ]
        batch = bytes(
            build_batch(
                records,
                codec=self.chance.randrange(5),
                producer_id=self.chance.choice([-1, -1, 1, 2**62]),
                producer_epoch=self.chance.choice([-1, 0, 2**15 - 1]),
                base_sequence=self.chance.choice([-1, 0, 1, 2**31 - 1]),
            )
        )
        return self._mutated(batch) if self.chance.random() < 0.3 else batch

    def _mutated(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(self.chance.choice([1, 1, 1, 2, 8])):
            self._mutate(changed)
        return bytes(changed)

    def _mutate(self, data: bytearray) -> None:
        position = self.chance.randrange(len(data) + 1)
        match self.chance.randrange(7):
            case 0:  # a flipped bit
                if position < len(data):
                    data[position] ^= 1 << self.chance.randrange(8)
            case 1:  # a length, a count or a number that is out of all bounds
                length = self.chance.choice(LENGTHS)
                data[position : position + 4] = struct.pack(">i", length)
            case 2:  # the same with two bytes
                value = self.chance.choice([-1, -2, 2**15 - 1])
                data[position : position + 2] = struct.pack(">h", value)
            case 3:  # a varint that is large, or never ends
                data[position : position + 1] = self.chance.choice(
                    [
                        b"\xff\xff\xff\xff\x0f",
                        b"\xff\xff\xff\xff\x07",
                        b"\x80" * 10,
                        b"\x80\x80\x01",
                    ]
                )
            case 4:
                del data[position:]
            case 5:
                data[position:position] = self.chance.randbytes(self.chance.randrange(1, 30))
            case _:
                data[position : position + 8] = self.chance.randbytes(8)

    def _with_length(self, body: bytes) -> bytes:
        if self.chance.random() < 0.02:
            return struct.pack(">i", self.chance.choice(LENGTHS)) + body
        return struct.pack(">i", len(body)) + body


def api_versions_frame(correlation_id: int) -> bytes:
    """A question that every healthy connection answers."""
    body = struct.pack(">hhi", API_VERSIONS, 0, correlation_id) + b"\xff\xff"
    return struct.pack(">i", len(body)) + body
