"""`partition.metadata` in a partition's folder: its topic, and which segments have a transaction index.

A lost `.txnindex` would read as "no transaction was aborted here". So every segment that is closed gets
one, even an empty one, and this file says from which segment on that holds. Older versions wrote none for
a segment without aborted transactions; which of their segments have one is noted at the first start. They
ignore the line, and a segment that they close afterwards has its index rebuilt: that is no damage.
"""

import base64
import uuid
from typing import NamedTuple

FILE_NAME = "partition.metadata"
_TOPIC_ID = "topic_id"
_INDEXED = "transaction_indexes"
_LINES_OF_OLDER_VERSIONS = 2


class IndexedSegments(NamedTuple):
    """The segments that have a transaction index once they are closed."""

    first: int = 0
    """All from this base offset on."""
    older: frozenset[int] = frozenset()
    """The base offsets of those before."""

    def __contains__(self, base_offset: object) -> bool:
        return isinstance(base_offset, int) and (
            base_offset >= self.first or base_offset in self.older
        )


ALL_SEGMENTS = IndexedSegments()


class PartitionMetadata(NamedTuple):
    """The content of the file; `indexed` is None if an older version has written it."""

    topic_id: uuid.UUID
    indexed: IndexedSegments | None = ALL_SEGMENTS


def encode_metadata(metadata: PartitionMetadata) -> bytes:
    """The lines of Kafka's file, and one more."""
    lines = ["version: 0", f"{_TOPIC_ID}: {encode_id(metadata.topic_id)}"]
    if metadata.indexed is not None:
        bases = [metadata.indexed.first, *sorted(metadata.indexed.older)]
        lines.append(f"{_INDEXED}: {' '.join(map(str, bases))}")
    return "".join(f"{line}\n" for line in lines).encode()


def decode_metadata(data: bytes) -> PartitionMetadata:
    """The metadata in a file; ValueError if it cannot be read."""
    lines = data.decode().splitlines()
    found = dict(line.split(": ", 1) for line in lines if ": " in line)
    if _TOPIC_ID not in found:
        raise ValueError("no topic id")
    topic_id = uuid.UUID(bytes=base64.urlsafe_b64decode(found[_TOPIC_ID] + "=="))
    if _INDEXED not in found:
        is_of_older_version = len(lines) <= _LINES_OF_OLDER_VERSIONS  # else a line is damaged
        return PartitionMetadata(topic_id, None if is_of_older_version else ALL_SEGMENTS)
    try:
        first, *older = map(int, found[_INDEXED].split())
    except ValueError:
        return PartitionMetadata(topic_id)  # what does not exist is rebuilt, even if it never did
    return PartitionMetadata(topic_id, IndexedSegments(first, frozenset(older)))


def encode_id(identifier: uuid.UUID) -> str:
    """URL-safe base64 of 22 characters, as Kafka writes topic ids."""
    return base64.urlsafe_b64encode(identifier.bytes).decode().rstrip("=")
