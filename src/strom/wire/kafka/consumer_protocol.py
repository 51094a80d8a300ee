"""What consumers of the classic protocol tell each other: subscriptions and shares.

To the broker these are bytes, until such a consumer is in a group of the new protocol. They begin with
their version (int16); a newer one only has more at its end.
"""

from strom.wire.kafka.codec import decode, encode
from strom.wire.kafka.fields import array, blob, int32, int32_array, string, string_array
from strom.wire.kafka.offsets_topic import version_of
from strom.wire.kafka.schema import Struct

NEWEST = 3


class ClassicPartitions(Struct):
    """Partitions of one topic."""

    topic: str = string()
    partitions: list[int] = int32_array()


class ClassicSubscription(Struct, versions="0-3"):
    """What a consumer wants and has."""

    topics: list[str] = string_array()
    user_data: bytes | None = blob(nullable="0+", default=None)
    owned_partitions: list[ClassicPartitions] = array(ClassicPartitions, "1+", ignorable=True)
    generation: int = int32("2+", default=-1, ignorable=True)
    rack: str | None = string("3+", nullable="3+", default=None, ignorable=True)


class ClassicAssignment(Struct, versions="0-3"):
    """The share of a consumer."""

    partitions: list[ClassicPartitions] = array(ClassicPartitions)
    user_data: bytes | None = blob(nullable="0+", default=None)


def read_subscription(data: bytes) -> ClassicSubscription:
    """A subscription, or ProtocolError."""
    return decode(ClassicSubscription, min(version_of(data), NEWEST), memoryview(data), 2)


def read_assignment(data: bytes) -> ClassicAssignment:
    """A share, or ProtocolError; one that was never given out is empty."""
    if not data:
        return ClassicAssignment()
    return decode(ClassicAssignment, min(version_of(data), NEWEST), memoryview(data), 2)


def write_assignment(assignment: ClassicAssignment, version: int) -> bytes:
    """The bytes of a share, for a consumer that has told this version of itself."""
    version = min(version, NEWEST)
    return version.to_bytes(2, "big") + encode(assignment, version)
