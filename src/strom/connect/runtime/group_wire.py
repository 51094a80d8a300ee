"""The five requests by which workers form a group, and the two that log in: values ↔ bytes.

The versions are old ones without tagged fields, which every Kafka since 2.2 answers.
"""

import struct
from collections.abc import Mapping
from typing import NamedTuple

PROTOCOL_TYPE = "connect"
PROTOCOL_NAME = "strom"
"""Another than Kafka's own workers use: they and we refuse each other instead of misreading."""

NONE = 0
COORDINATOR_LOADING = 14
COORDINATOR_NOT_AVAILABLE = 15
NOT_COORDINATOR = 16
ILLEGAL_GENERATION = 22
INCONSISTENT_PROTOCOL = 23
UNKNOWN_MEMBER = 25
INVALID_SESSION_TIMEOUT = 26
REBALANCE_IN_PROGRESS = 27
MEMBER_ID_REQUIRED = 79


class Request(NamedTuple):
    """A request without its header."""

    api_key: int
    version: int
    body: bytes

    def framed(self, correlation_id: int, client_id: str) -> bytes:
        """With header and length, as it is sent."""
        head = struct.pack(">hhi", self.api_key, self.version, correlation_id) + _text(client_id)
        return struct.pack(">i", len(head) + len(self.body)) + head + self.body


class Coordinator(NamedTuple):
    """Where a group is led."""

    error: int
    host: str
    port: int


class Joined(NamedTuple):
    """What JoinGroup answers."""

    error: int
    generation: int
    leader: str
    member_id: str
    members: dict[str, bytes]
    """Everyone's metadata, for the leader only."""


class Reader:
    """Takes values off an answer, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def int16(self) -> int:
        """Two bytes."""
        return self._number(">h", 2)

    def int32(self) -> int:
        """Four bytes."""
        return self._number(">i", 4)

    def text(self) -> str:
        """A string; null is empty."""
        size = self.int16()
        return self._take(max(0, size)).decode()

    def data(self) -> bytes:
        """Bytes; null is empty."""
        size = self.int32()
        return self._take(max(0, size))

    def _number(self, form: str, size: int) -> int:
        number: int = struct.unpack(form, self._take(size))[0]
        return number

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) != size:
            raise ValueError("The answer is shorter than it says.")
        self._at += size
        return taken


def find_coordinator(group: str) -> Request:
    """Ask which broker leads a group."""
    return Request(10, 1, _text(group) + b"\0")


def read_coordinator(data: bytes) -> Coordinator:
    """Its answer."""
    reader = Reader(data)
    reader.int32()
    error = reader.int16()
    reader.text()
    reader.int32()
    return Coordinator(error, reader.text(), reader.int32())


def join_group(
    group: str, member_id: str, metadata: bytes, session_ms: int, rebalance_ms: int
) -> Request:
    """Become a member, or take part in a rebalance."""
    body = _text(group) + struct.pack(">ii", session_ms, rebalance_ms) + _text(member_id)
    body += _text(PROTOCOL_TYPE) + struct.pack(">i", 1) + _text(PROTOCOL_NAME) + _data(metadata)
    return Request(11, 4, body)


def read_joined(data: bytes) -> Joined:
    """Its answer."""
    reader = Reader(data)
    reader.int32()
    error, generation = reader.int16(), reader.int32()
    reader.text()
    leader, member_id = reader.text(), reader.text()
    members = {reader.text(): reader.data() for _ in range(reader.int32())}
    return Joined(error, generation, leader, member_id, members)


def sync_group(
    group: str, generation: int, member_id: str, assignments: Mapping[str, bytes]
) -> Request:
    """Fetch one's share; the leader brings everyone's along."""
    body = _text(group) + struct.pack(">i", generation) + _text(member_id)
    body += struct.pack(">i", len(assignments))
    for member, assignment in assignments.items():
        body += _text(member) + _data(assignment)
    return Request(14, 1, body)


def read_synced(data: bytes) -> tuple[int, bytes]:
    """Its answer: an error, and the share."""
    reader = Reader(data)
    reader.int32()
    return reader.int16(), reader.data()


def heartbeat(group: str, generation: int, member_id: str) -> Request:
    """Say that one is alive."""
    return Request(12, 1, _text(group) + struct.pack(">i", generation) + _text(member_id))


def leave_group(group: str, member_id: str) -> Request:
    """Say good-bye."""
    return Request(13, 1, _text(group) + _text(member_id))


def read_error(data: bytes) -> int:
    """What Heartbeat and LeaveGroup answer."""
    reader = Reader(data)
    reader.int32()
    return reader.int16()


def sasl_handshake(mechanism: str) -> Request:
    """Say how one logs in."""
    return Request(17, 1, _text(mechanism))


def read_handshake(data: bytes) -> tuple[int, list[str]]:
    """Its answer: an error, and what the broker would take."""
    reader = Reader(data)
    return reader.int16(), [reader.text() for _ in range(reader.int32())]


def sasl_authenticate(message: bytes) -> Request:
    """One step of logging in."""
    return Request(36, 0, _data(message))


def read_authenticated(data: bytes) -> tuple[int, str, bytes]:
    """Its answer: an error, its text, and the broker's next message."""
    reader = Reader(data)
    return reader.int16(), reader.text(), reader.data()


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _data(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data
