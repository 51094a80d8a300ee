"""The constants of AMQP 0-9-1, and the error that carries a reply code."""

from enum import Enum, IntEnum
from typing import Self

from strom.model.errors import ProtocolError

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
"""What a client sends first; the server responds to any other header with this one, and closes."""

METHOD_FRAME = 1
HEADER_FRAME = 2
BODY_FRAME = 3
HEARTBEAT_FRAME = 8

FRAME_END = 0xCE
FRAME_HEAD_BYTES = 7
FRAME_OVERHEAD = FRAME_HEAD_BYTES + 1
"""Bytes around the payload of a frame: type, channel and size before it, frame-end after it."""
FRAME_MIN_SIZE = 4096
"""Every peer must accept frames of this size; before connection.tune no frame may be larger."""
FRAME_MAX_DEFAULT = 131072
"""The frame_max that RabbitMQ proposes."""

HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"

MAX_BODY_BYTES = 512 * 1024 * 1024
"""The limit that no setting can raise; the same as in RabbitMQ."""

BASIC_CLASS = 60
"""The only class whose methods carry content."""


class Closes(Enum):
    NOTHING = 0
    CHANNEL = 1
    CONNECTION = 2


class ReplyCode(IntEnum):
    """The reply codes, and what each of them closes."""

    closes: Closes

    def __new__(cls, code: int, closes: Closes = Closes.NOTHING) -> Self:
        """Make a member that equals its code, with `closes` as an attribute."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.closes = closes
        return member

    REPLY_SUCCESS = 200
    CONTENT_TOO_LARGE = 311, Closes.CHANNEL
    NO_ROUTE = 312, Closes.NOTHING
    """Only in basic.return, for a mandatory message that could not be routed."""
    NO_CONSUMERS = 313, Closes.CHANNEL
    CONNECTION_FORCED = 320, Closes.CONNECTION
    INVALID_PATH = 402, Closes.CONNECTION
    ACCESS_REFUSED = 403, Closes.CHANNEL
    NOT_FOUND = 404, Closes.CHANNEL
    RESOURCE_LOCKED = 405, Closes.CHANNEL
    PRECONDITION_FAILED = 406, Closes.CHANNEL
    FRAME_ERROR = 501, Closes.CONNECTION
    SYNTAX_ERROR = 502, Closes.CONNECTION
    COMMAND_INVALID = 503, Closes.CONNECTION
    CHANNEL_ERROR = 504, Closes.CONNECTION
    UNEXPECTED_FRAME = 505, Closes.CONNECTION
    RESOURCE_ERROR = 506, Closes.CONNECTION
    NOT_ALLOWED = 530, Closes.CONNECTION
    NOT_IMPLEMENTED = 540, Closes.CONNECTION
    INTERNAL_ERROR = 541, Closes.CONNECTION


class AmqpError(ProtocolError):
    """An error that closes the channel or the connection with a reply code."""

    def __init__(self, code: ReplyCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        return f"{self.code.name} - {self.text}"
