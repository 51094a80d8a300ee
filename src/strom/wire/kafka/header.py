"""The headers of requests and responses.

Request headers have version 1, or 2 with tagged fields if the body is flexible; response headers have
version 0 or 1 likewise. The response to ApiVersions always has header version 0 (KIP-511): a client
that sent a version unknown to this broker must be able to read the response and downgrade.
"""

import struct
from typing import NamedTuple

from strom.model.errors import ProtocolError
from strom.wire.kafka.messages import REQUESTS
from strom.wire.kafka.schema import ANY_LATER, NEVER
from strom.wire.kafka.varints import skip_tags

API_VERSIONS_KEY = 18

_FIXED = struct.Struct(">hhi")
_CLIENT_ID_LENGTH = struct.Struct(">h")
_CORRELATION_ID = struct.Struct(">i")
_CORRELATION_ID_AND_NO_TAGS = struct.Struct(">ib")

_FLEXIBLE_FROM = {
    api_key: cls.SCHEMA.flexible.first if cls.SCHEMA.flexible != NEVER else ANY_LATER + 1
    for api_key, cls in REQUESTS.items()
}


class RequestHeader(NamedTuple):
    """A decoded request header, and the position of the body."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def decode_request_header(frame: memoryview) -> RequestHeader:
    """Decode a request header; with an unknown API key only up to the correlation id."""
    try:
        api_key, version, correlation_id = _FIXED.unpack_from(frame, 0)
        flexible_from = _FLEXIBLE_FROM.get(api_key)
        if flexible_from is None:
            return RequestHeader(api_key, version, correlation_id, None, _FIXED.size)
        client_id, position = _client_id(frame, _FIXED.size)
        if version >= flexible_from:
            tags = frame[position]
            position += 1
            if tags:
                position = skip_tags(frame, position, tags)
    except (struct.error, IndexError):
        raise ProtocolError("request header: truncated") from None
    except UnicodeDecodeError:
        raise ProtocolError("request header: the client id is not UTF-8") from None
    return RequestHeader(api_key, version, correlation_id, client_id, position)


def _client_id(frame: memoryview, position: int) -> tuple[str | None, int]:
    (length,) = _CLIENT_ID_LENGTH.unpack_from(frame, position)
    position += _CLIENT_ID_LENGTH.size
    if length == -1:
        return None, position
    end = position + length
    if length < 0 or end > len(frame):
        raise ProtocolError("request header: the client id has an invalid length")
    return str(frame[position:end], "utf-8"), end


def response_header(api_key: int, version: int, correlation_id: int) -> bytes:
    """The header of the response to a request of this API key and version."""
    flexible = version >= _FLEXIBLE_FROM.get(api_key, ANY_LATER + 1)
    if flexible and api_key != API_VERSIONS_KEY:
        return _CORRELATION_ID_AND_NO_TAGS.pack(correlation_id, 0)
    return _CORRELATION_ID.pack(correlation_id)


def request_header(api_key: int, version: int, correlation_id: int, client_id: str) -> bytes:
    """The header of a request, for clients."""
    name = client_id.encode()
    head = _FIXED.pack(api_key, version, correlation_id) + _CLIENT_ID_LENGTH.pack(len(name)) + name
    flexible = version >= _FLEXIBLE_FROM.get(api_key, ANY_LATER + 1)
    return head + (b"\0" if flexible else b"")
