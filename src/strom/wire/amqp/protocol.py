"""The numbers of AMQP 0-9-1, and the error that names the reply code to send for it."""

from enum import Enum, IntEnum
from typing import Self

from strom.model.errors import ProtocolError

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
"""What a client sends first; a server that cannot serve it answers with the same and hangs up."""

METHOD_FRAME = 1
HEADER_FRAME = 2
BODY_FRAME = 3
HEARTBEAT_FRAME = 8

FRAME_END = 0xCE
FRAME_HEAD_BYTES = 7
FRAME_OVERHEAD = FRAME_HEAD_BYTES + 1
"""What a frame has around its payload: type, channel and size before, the end mark after."""
FRAME_MIN_SIZE = 4096
"""Every peer must take frames of this size; before tuning none may be larger."""
FRAME_MAX_DEFAULT = 131072
"""What RabbitMQ offers."""

HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"
"""The whole heartbeat frame."""

MAX_BODY_BYTES = 512 * 1024 * 1024
"""No message may be larger, whatever the settings say; it is RabbitMQ's hard limit too."""

BASIC_CLASS = 60
"""The only class whose methods carry content."""


class Closes(Enum):
    """What ends when a reply code is sent."""

    NOTHING = 0
    CHANNEL = 1
    CONNECTION = 2


class ReplyCode(IntEnum):
    """The reply codes: number, and what is closed with it."""

    closes: Closes

    def __new__(cls, code: int, closes: Closes = Closes.NOTHING) -> Self:
        """Make a member that equals its number and carries the rest as an attribute."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.closes = closes
        return member

    REPLY_SUCCESS = 200
    CONTENT_TOO_LARGE = 311, Closes.CHANNEL
    NO_ROUTE = 312, Closes.NOTHING
    """Only in basic.return: a mandatory message that no queue was bound for."""
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
    """Something to be told to the peer with a reply code, on the channel or the connection."""

    def __init__(self, code: ReplyCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        return f"{self.code.name} - {self.text}"
