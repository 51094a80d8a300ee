"""A broker whose responses a test writes down, with TLS and SASL: scramp's server side behind it."""

import hashlib
import hmac
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

import scramp

from strom.model.errors import ErrorCode
from strom.wire.kafka.codec import decode, encode
from strom.wire.kafka.header import decode_request_header, response_header
from strom.wire.kafka.messages import REQUESTS
from strom.wire.kafka.messages.k10_find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from strom.wire.kafka.messages.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from strom.wire.kafka.messages.k18_api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from strom.wire.kafka.messages.k36_sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)

Respond = Callable[[Any], Any]


class Users:
    """Authenticates one user by PLAIN or SCRAM."""

    def __init__(self, name="ada", password="lovelace", iterations=4096, lifetime_ms=0):
        self.name, self.password = name, password
        self.iterations = iterations
        self.lifetime_ms = lifetime_ms
        self.mechanisms = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
        self.forges_signature = False
        self._mechanism = ""
        self._scram = None

    def choose(self, mechanism):
        known = mechanism in self.mechanisms
        self._mechanism, self._scram = mechanism, None
        code = 0 if known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        return SaslHandshakeResponse(error_code=code, mechanisms=self.mechanisms)

    def step(self, message):
        try:
            data = self._plain(message) if self._mechanism == "PLAIN" else self._step(message)
        except scramp.ScramException:
            return SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                error_message="Authentication failed: Invalid credentials",
            )
        return SaslAuthenticateResponse(auth_bytes=data, session_lifetime_ms=self.lifetime_ms)

    def _plain(self, message):
        if message != f"\0{self.name}\0{self.password}".encode():
            raise scramp.ScramException("wrong")
        return b""

    def _step(self, message):
        if self._scram is None:
            mechanism = scramp.ScramMechanism(self._mechanism)
            self._scram = mechanism.make_server(self._stored)
            self._scram.set_client_first(message.decode())
            return self._scram.get_server_first().encode()
        self._scram.set_client_final(message.decode())
        if self.forges_signature:
            return b"v=" + b"AAAA" * 11
        return self._scram.get_server_final().encode()

    def _stored(self, name):
        """As Kafka stores a password: of its bytes as they are, without SASLprep."""
        if name != self.name:
            return None
        digest = self._mechanism.removeprefix("SCRAM-").replace("-", "").lower()
        # A server with more iterations than a client accepts is never asked for the proof.
        rounds = min(self.iterations, 4096)
        salted = hashlib.pbkdf2_hmac(digest, self.password.encode(), b"salt" * 4, rounds)
        stored_key = hashlib.new(digest, hmac.digest(salted, b"Client Key", digest)).digest()
        return b"salt" * 4, stored_key, hmac.digest(salted, b"Server Key", digest), self.iterations


class ScriptedBroker:
    """Serves connections one after the other; `respond` maps requests to responses."""

    def __init__(self, *, users=None, certificate=None):
        self.users = users
        self.requests: list[Any] = []
        self.used_versions: dict[str, int] = {}
        self.connections = 0
        self.respond: dict[type, Respond] = {FindCoordinatorRequest: self._coordinator}
        self.versions = {key: cls.SCHEMA.versions for key, cls in REQUESTS.items()}
        self.knows_api_versions_3 = True
        self._context = None
        if certificate is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(certificate.certificate, certificate.key)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

    @property
    def servers(self):
        return f"127.0.0.1:{self.port}"

    def __enter__(self):
        self._start(self._accept)
        return self

    def __exit__(self, *_):
        # Closing alone would not wake the thread that accepts.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()
        for thread in self._threads:
            thread.join(10)

    def hang_up(self):
        """Close all connections."""
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def count(self, request):
        return sum(isinstance(one, request) for one in self.requests)

    def _start(self, target, *arguments):
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._start(self._serve, connection)

    def _serve(self, raw):
        with raw:
            try:
                connection = (
                    self._context.wrap_socket(raw, server_side=True) if self._context else raw
                )
            except OSError:
                return
            self.connections += 1
            self._open.add(connection)
            with connection:
                try:
                    while (frame := self._frame(connection)) is not None:
                        answer = self._answer(frame)
                        if answer is None:
                            break
                        connection.sendall(answer)
                except OSError:
                    pass
                self._open.discard(connection)

    def _frame(self, connection):
        with connection.makefile("rb") as file:
            size = file.read(4)
            return file.read(int.from_bytes(size, "big")) if len(size) == 4 else None

    def _answer(self, frame):
        header = decode_request_header(memoryview(frame))
        if header.api_key == 18 and header.api_version == 3 and not self.knows_api_versions_3:
            body = encode(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION), 0)
            return _framed(header.correlation_id.to_bytes(4, "big") + body)
        cls, version = REQUESTS[header.api_key], header.api_version
        request = decode(cls, version, memoryview(frame), header.body_position)
        self.requests.append(request)
        self.used_versions[cls.__name__] = version
        response = self._response_to(request)
        if response is None or isinstance(response, bytes):
            return response
        head = response_header(header.api_key, version, header.correlation_id)
        return _framed(head + encode(response, version))

    def _response_to(self, request):
        if isinstance(request, ApiVersionsRequest):
            return ApiVersionsResponse(
                api_keys=[
                    ApiVersion(api_key=key, min_version=first, max_version=last)
                    for key, (first, last) in self.versions.items()
                ]
            )
        if isinstance(request, SaslHandshakeRequest):
            return self.users.choose(request.mechanism)
        if isinstance(request, SaslAuthenticateRequest):
            return self.users.step(bytes(request.auth_bytes))
        return self.respond[type(request)](request)

    def _coordinator(self, _):
        return FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=self.port)


def _framed(body):
    return len(body).to_bytes(4, "big") + body
