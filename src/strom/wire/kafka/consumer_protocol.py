"""The consumer protocol embedded in the classic group protocol: subscriptions and assignments.

The broker treats these as opaque bytes, except for classic members of a consumer group (KIP-848,
migration). They begin with their version (int16); newer versions only append fields.
"""

from strom.wire.kafka import fields
from strom.wire.kafka.codec import decode, encode
from strom.wire.kafka.offsets_topic import version_of
from strom.wire.kafka.schema import Struct

NEWEST = 3


class ClassicPartitions(Struct):
    topic: str = fields.string()
    partitions: list[int] = fields.array(fields.INT32)


class ClassicSubscription(Struct, versions="0-3"):
    topics: list[str] = fields.array(fields.STRING)
    user_data: bytes | None = fields.blob(nullable="0+", default=None)
    owned_partitions: list[ClassicPartitions] = fields.array(
        ClassicPartitions, "1+", ignorable=True
    )
    generation: int = fields.int32("2+", default=-1, ignorable=True)
    rack: str | None = fields.string("3+", nullable="3+", default=None, ignorable=True)


class ClassicAssignment(Struct, versions="0-3"):
    partitions: list[ClassicPartitions] = fields.array(ClassicPartitions)
    user_data: bytes | None = fields.blob(nullable="0+", default=None)


def read_subscription(data: bytes) -> ClassicSubscription:
    return decode(ClassicSubscription, min(version_of(data), NEWEST), memoryview(data), 2)


def read_assignment(data: bytes) -> ClassicAssignment:
    """An assignment; no bytes (nothing assigned yet) give an empty one."""
    if not data:
        return ClassicAssignment()
    return decode(ClassicAssignment, min(version_of(data), NEWEST), memoryview(data), 2)


def write_assignment(assignment: ClassicAssignment, version: int) -> bytes:
    """The bytes of an assignment, in the version of the consumer's subscription."""
    version = min(version, NEWEST)
    return version.to_bytes(2, "big") + encode(assignment, version)
