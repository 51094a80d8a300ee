"""One connection to one broker: TLS, SASL, version negotiation, one request in flight."""

import selectors
import socket
import ssl
import time
from typing import Final, TypeVar

from strom import __version__
from strom.client.connection_settings import ConnectionSettings
from strom.client.sasl import AuthenticationFailed, authenticate
from strom.model.errors import ApiError, ErrorCode, ProtocolError, UserError
from strom.wire.kafka.codec import decode, encode
from strom.wire.kafka.header import request_header, response_header
from strom.wire.kafka.messages import RESPONSES
from strom.wire.kafka.messages.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from strom.wire.kafka.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from strom.wire.kafka.messages.k36_sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from strom.wire.kafka.schema import Request, Response, Versions

MAX_RESPONSE_BYTES: Final = 100 * 1024 * 1024
"""What brokers accept as a request by default; none of the responses read here comes near it."""
_SIZE_BYTES: Final = 4
_RECEIVE_BYTES: Final = 1 << 16
_API_VERSIONS: Final = 3
"""Known since Kafka 2.4. An older broker responds in version 0, with an error (KIP-511)."""
_HANDSHAKE: Final = Versions(1, 1)
"""Version 0 would send SASL's messages without Kafka's headers, and get no reason for a failure."""
_SESSION_SHARE: Final = 0.85
"""Java's clients authenticate again when between 85 and 95 % of a session's lifetime have passed."""

_SELECTOR: Final[type[selectors.BaseSelector]] = getattr(
    selectors, "PollSelector", selectors.SelectSelector
)
"""Not epoll, which takes a descriptor: a connection must stay usable when there is none left."""

R = TypeVar("R", bound=Response)
_CODES: Final = {code.value: code for code in ErrorCode}


class BrokerUnreachable(UserError):
    """No connection, or one that broke or timed out before the response; a retry may succeed."""


class BrokerConnection:
    """Connected and authenticated by its constructor; any failed request closes it."""

    def __init__(
        self,
        address: tuple[str, int],
        settings: ConnectionSettings,
        context: ssl.SSLContext | None,
        client_id: str,
        timeout_s: float,
    ) -> None:
        host, port = address
        self._address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._client_id = client_id
        self._correlation_id = 0
        self._versions: dict[int, Versions] = {}
        self._expires_at: float | None = None
        deadline = time.monotonic() + timeout_s
        try:
            self._socket = socket.create_connection(address, timeout=timeout_s)
        except (OSError, UnicodeError) as error:  # UnicodeError: the host is not a valid IDNA name
            reason = getattr(error, "strerror", None) or error
            raise BrokerUnreachable(f"Cannot connect to {self._address}: {reason}.") from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._start_tls(context, host, deadline)
            self._negotiate_versions(deadline)
            if mechanism := settings.sasl_mechanism:
                self._authenticate(mechanism, settings, deadline)
        except BaseException:
            self.close()
            raise

    def version_of(self, request: type[Request], wanted: Versions) -> int:
        """The highest version within `wanted` that the broker supports; ApiError if there is none."""
        offered = self._versions.get(request.SCHEMA.api_key)
        name = request.__name__.removesuffix("Request")
        if offered is None:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"The broker at {self._address} does not support {name}. Upgrade the broker.",
            )
        highest = min(wanted.last, offered.last)
        if highest < max(wanted.first, offered.first):
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"The broker at {self._address} supports versions {offered.first} to {offered.last} of "
                f"{name}; this client needs {wanted.first} to {wanted.last}.",
            )
        return highest

    def call(
        self,
        request: Request,
        response: type[R],
        timeout_s: float,
        versions: Versions | None = None,
    ) -> R:
        """Send a request in the highest common version, by default a stable one; the response."""
        if RESPONSES[request.SCHEMA.api_key] is not response:
            raise TypeError(f"{response.__name__} is not the response to {type(request).__name__}")
        version = self.version_of(type(request), versions or request.SCHEMA.stable)
        body, start = self._exchange(request, version, time.monotonic() + timeout_s)
        return self._decoded(response, version, body, start)

    def is_reusable(self) -> bool:
        """Whether the next request may be sent here.

        A broker closes idle connections, and those whose SASL session has expired (KIP-368). Kafka
        brokers never send unrequested data, so a readable socket means that the broker closed it.
        """
        if self._socket.fileno() < 0:
            return False
        if self._expires_at is not None and time.monotonic() >= self._expires_at:
            return False
        with _SELECTOR() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            return not selector.select(0)

    def close(self) -> None:
        """Close the socket; a second call does nothing."""
        self._socket.close()

    def _start_tls(self, context: ssl.SSLContext | None, host: str, deadline: float) -> None:
        if context is None:
            return
        try:
            self._socket.settimeout(_left(deadline))
            self._socket = context.wrap_socket(self._socket, server_hostname=host)
        except OSError as error:
            reason = (
                getattr(error, "verify_message", None) or getattr(error, "reason", None) or error
            )
            raise BrokerUnreachable(
                f"The TLS handshake with {self._address} failed: {reason}. Check ssl.ca.location, and "
                "that the broker expects TLS on this port."
            ) from error

    def _negotiate_versions(self, deadline: float) -> None:
        request = ApiVersionsRequest(
            client_software_name="strom", client_software_version=__version__
        )
        body, start = self._exchange(request, _API_VERSIONS, deadline)
        unsupported = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
        if body[start : start + 2] == unsupported:
            body, start = self._exchange(ApiVersionsRequest(), 0, deadline)
            found = self._decoded(ApiVersionsResponse, 0, body, start)
        else:
            found = self._decoded(ApiVersionsResponse, _API_VERSIONS, body, start)
        check(found.error_code)
        self._versions = {
            one.api_key: Versions(one.min_version, one.max_version) for one in found.api_keys
        }

    def _authenticate(self, mechanism: str, settings: ConnectionSettings, deadline: float) -> None:
        handshake = self.call(
            SaslHandshakeRequest(mechanism=mechanism),
            SaslHandshakeResponse,
            deadline - time.monotonic(),
            _HANDSHAKE,
        )
        if handshake.error_code:
            raise AuthenticationFailed(
                f"The broker at {self._address} does not accept {mechanism}; it offers "
                f"{', '.join(handshake.mechanisms)}. Set sasl.mechanism."
            )

        def exchange(message: bytes) -> bytes:
            response = self.call(
                SaslAuthenticateRequest(auth_bytes=message),
                SaslAuthenticateResponse,
                deadline - time.monotonic(),
            )
            if response.error_code:
                reason = (response.error_message or "authentication failed").rstrip(".")
                raise AuthenticationFailed(
                    f"The broker at {self._address} rejects user {settings.sasl_username!r}: {reason}."
                )
            if response.session_lifetime_ms:
                lifetime_s = response.session_lifetime_ms / 1000
                self._expires_at = time.monotonic() + _SESSION_SHARE * lifetime_s
            return response.auth_bytes

        authenticate(mechanism, settings.sasl_username, settings.sasl_password, exchange)

    def _exchange(self, request: Request, version: int, deadline: float) -> tuple[bytes, int]:
        """Send a request; the response frame, and where its body starts."""
        self._correlation_id = (self._correlation_id + 1) % 2**31
        key = request.SCHEMA.api_key
        head = request_header(key, version, self._correlation_id, self._client_id)
        frame = head + encode(request, version)
        expected = response_header(key, version, self._correlation_id)
        try:
            self._socket.settimeout(_left(deadline))
            self._socket.sendall(len(frame).to_bytes(_SIZE_BYTES, "big") + frame)
            size = int.from_bytes(self._receive(_SIZE_BYTES, deadline), "big")
            if not len(expected) <= size <= MAX_RESPONSE_BYTES:
                raise ProtocolError(
                    f"The server at {self._address} does not respond as a Kafka broker: a response of "
                    f"{size} bytes exceeds the limit of {MAX_RESPONSE_BYTES}. Check the address, and "
                    "security.protocol if the broker expects TLS."
                )
            body = self._receive(size, deadline)
        except OSError as error:
            self.close()
            name = type(request).__name__.removesuffix("Request")
            reason = "the broker timed out" if isinstance(error, TimeoutError) else error
            raise BrokerUnreachable(f"{name} to {self._address} failed: {reason}.") from error
        except BaseException:
            self.close()
            raise
        # A prefix comparison suffices: Kafka has no tagged field in the response header yet.
        if not body.startswith(expected):
            self.close()
            raise ProtocolError(
                f"The correlation id of {self._address} does not match the request."
            )
        return body, len(expected)

    def _decoded(self, response: type[R], version: int, body: bytes, start: int) -> R:
        try:
            return decode(response, version, memoryview(body), start)
        except ProtocolError as error:
            self.close()
            raise ProtocolError(f"{self._address}: {error}") from None

    def _receive(self, size: int, deadline: float) -> bytes:
        received = bytearray()
        while len(received) < size:
            self._socket.settimeout(_left(deadline))
            part = self._socket.recv(min(size - len(received), _RECEIVE_BYTES))
            if not part:
                raise ConnectionResetError("the broker closed the connection")
            received += part
        return bytes(received)


def check(number: int, message: str | None = None) -> None:
    """Raise ApiError for an error code of a response; one unknown here is an unknown server error."""
    if number:
        code = _CODES.get(number)
        if code is None:
            message = message or f"The broker responded with error code {number}."
        raise ApiError(code or ErrorCode.UNKNOWN_SERVER_ERROR, message)


def _left(deadline: float) -> float:
    """The socket timeout until the deadline: a peer that sends byte by byte cannot extend it."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
