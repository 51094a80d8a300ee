"""Messages to bytes and back.

Code for a (message, version) is generated from the declaration on first use, and cached. Decoding any
bytes gives a message or a ProtocolError, with memory in proportion to the number of bytes: this is
what faces untrusted clients.
"""

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from strom.model.errors import ProtocolError
from strom.wire.kafka.batch import Buffer
from strom.wire.kafka.decoding import compile_decoder
from strom.wire.kafka.encoding import compile_encoder
from strom.wire.kafka.schema import Struct

M = TypeVar("M", bound=Struct)


@cache
def _decoder(cls: type[Struct], version: int) -> Callable[[memoryview, int, int], Any]:
    _check_version(cls, version)
    return compile_decoder(cls, version)


@cache
def _encoder(cls: type[Struct], version: int) -> Callable[[Any], list[Any]]:
    _check_version(cls, version)
    return compile_encoder(cls, version)


def decode(cls: type[M], version: int, buffer: memoryview, position: int = 0) -> M:
    """Decode the message at a position; raises ProtocolError if it is malformed."""
    decoder = _decoder(cls, version)
    try:
        message: M = decoder(buffer, position, len(buffer))
    except (IndexError, struct.error):
        raise ProtocolError(f"{cls.__name__} v{version}: truncated") from None
    except UnicodeDecodeError:
        raise ProtocolError(f"{cls.__name__} v{version}: a string is not UTF-8") from None
    except ProtocolError as error:
        raise ProtocolError(f"{cls.__name__} v{version}: {error}") from None
    return message


def encode(message: Struct, version: int) -> bytes:
    """The bytes of a message."""
    return b"".join(encode_parts(message, version))


def encode_parts(message: Struct, version: int) -> list[Buffer]:
    """The bytes of a message as buffers; buffers of records are passed through, not copied."""
    cls = type(message)
    encoder = _encoder(cls, version)
    try:
        parts: list[Buffer] = encoder(message)
    except (struct.error, UnicodeEncodeError, TypeError, AttributeError, ValueError) as error:
        raise ProtocolError(f"{cls.__name__} v{version} cannot be encoded: {error}") from error
    return parts


def _check_version(cls: type[Struct], version: int) -> None:
    if version not in cls.SCHEMA.versions:
        raise ProtocolError(f"{cls.__name__} has no version {version}")
