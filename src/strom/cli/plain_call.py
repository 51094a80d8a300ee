"""Requests that librdkafka has no function for, sent as they are.

That goes only where clients need neither TLS nor a password; elsewhere commands do without.
"""

import socket
import struct
from typing import Any

from strom.cli.connection import ANSWER_SECONDS, Connection
from strom.model.errors import ProtocolError, UserError
from strom.wire.kafka.codec import decode, encode
from strom.wire.kafka.header import response_header
from strom.wire.kafka.messages import RESPONSES
from strom.wire.kafka.schema import Request

_CLIENT_ID = b"strom-cli"


def is_plain(connection: Connection) -> bool:
    """Whether brokers can be talked to without more ado."""
    protocol = connection.settings.get("security.protocol", "plaintext")
    return protocol.lower() == "plaintext"


def plain_call(address: tuple[str, int], request: Request, version: int) -> Any:
    """Send one request to one broker, and return its answer."""
    api_key = request.SCHEMA.api_key
    head = struct.pack(">hhih", api_key, version, 0, len(_CLIENT_ID)) + _CLIENT_ID
    begins = response_header(api_key, version, 0)
    is_flexible = len(begins) > 4
    frame = head + (b"\0" if is_flexible else b"") + encode(request, version)
    try:
        with socket.create_connection(address, timeout=ANSWER_SECONDS) as channel:
            channel.sendall(struct.pack(">i", len(frame)) + frame)
            (size,) = struct.unpack(">i", _receive(channel, 4))
            answer = _receive(channel, size)
        return decode(RESPONSES[api_key], version, memoryview(answer), len(begins))
    except (OSError, ProtocolError) as error:
        raise UserError(
            f"The broker at {address[0]}:{address[1]} does not answer: {error}"
        ) from None


def _receive(channel: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        chunk = channel.recv(size - len(received))
        if not chunk:
            raise OSError("it hung up")
        received += chunk
    return bytes(received)
