"""Messages to bytes and back.

Code for a (message, version) is generated from the declaration on first use, and cached. Decoding any
bytes gives a message or a ProtocolError, with memory in proportion to the number of bytes: this is
what faces untrusted clients.
"""

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias, TypeVar

from strom.model.errors import ProtocolError
from strom.model.steps import Steps
from strom.wire.kafka.batch import Buffer
from strom.wire.kafka.decoding import compile_decoder
from strom.wire.kafka.encoding import compile_encoder
from strom.wire.kafka.schema import Struct

M = TypeVar("M", bound=Struct)
OnGrowth: TypeAlias = Callable[[int], int]
"""Called with the size of what is encoded so far; returns the size at which to be called again.

An error that it raises ends the encoding."""

_MALFORMED = (IndexError, struct.error, UnicodeDecodeError, ProtocolError)
_NOT_ENCODABLE = (struct.error, UnicodeEncodeError, TypeError, AttributeError, ValueError)


@cache
def _decoder(
    cls: type[Struct], version: int, *, in_steps: bool = False
) -> Callable[[memoryview, int, int], Any]:
    _check_version(cls, version)
    return compile_decoder(cls, version, in_steps=in_steps)


@cache
def _encoder(cls: type[Struct], version: int, *, in_steps: bool = False) -> Callable[..., Any]:
    _check_version(cls, version)
    return compile_encoder(cls, version, in_steps=in_steps)


def decode(cls: type[M], version: int, buffer: memoryview, position: int = 0) -> M:
    """Decode the message at a position; raises ProtocolError if it is malformed."""
    decoder = _decoder(cls, version)
    try:
        message: M = decoder(buffer, position, len(buffer))
    except _MALFORMED as error:
        raise _malformed(cls, version, error) from None
    return message


def decode_steps(cls: type[M], version: int, buffer: memoryview, position: int = 0) -> Steps[M]:
    """Decode a large message in small steps."""
    decoder = _decoder(cls, version, in_steps=True)
    try:
        message: M = yield from decoder(buffer, position, len(buffer))
    except _MALFORMED as error:
        raise _malformed(cls, version, error) from None
    return message


def _malformed(cls: type[Struct], version: int, error: Exception) -> ProtocolError:
    if isinstance(error, UnicodeDecodeError):
        problem = "a string is not UTF-8"
    else:
        problem = str(error) if isinstance(error, ProtocolError) else "truncated"
    return ProtocolError(f"{cls.__name__} v{version}: {problem}")


def encode(message: Struct, version: int) -> bytes:
    """The bytes of a message."""
    return b"".join(encode_parts(message, version))


def encode_parts(message: Struct, version: int) -> list[Buffer]:
    """The bytes of a message as buffers; buffers of records are passed through, not copied."""
    encoder = _encoder(type(message), version)
    try:
        parts: list[Buffer] = encoder(message)
    except _NOT_ENCODABLE as error:
        raise _not_encodable(message, version, error) from error
    return parts


def encode_steps(message: Struct, version: int, on_growth: OnGrowth) -> Steps[list[Buffer]]:
    """The same for a large message, in small steps."""
    encoder = _encoder(type(message), version, in_steps=True)
    try:
        parts: list[Buffer] = yield from encoder(message, on_growth)
    except _NOT_ENCODABLE as error:
        raise _not_encodable(message, version, error) from error
    return parts


def _not_encodable(message: Struct, version: int, error: Exception) -> ProtocolError:
    return ProtocolError(f"{type(message).__name__} v{version} cannot be encoded: {error}")


def _check_version(cls: type[Struct], version: int) -> None:
    if version not in cls.SCHEMA.versions:
        raise ProtocolError(f"{cls.__name__} has no version {version}")
