"""A connection to a broker that carries the requests of `group_wire`, with TLS and login if asked.

Settings go by librdkafka's names, as for every other client of the worker.
"""

import base64
import hashlib
import hmac
import os
import socket
import ssl
import struct
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from strom.connect.api import ConnectError
from strom.connect.runtime import group_wire
from strom.connect.runtime.group_wire import Request

LARGEST_ANSWER = 100 * 1024 * 1024


class GroupConnection:
    """One request at a time, each answered before the next."""

    def __init__(
        self,
        address: tuple[str, int],
        settings: Mapping[str, str],
        client_id: str,
        timeout_s: float,
    ) -> None:
        self._client_id = client_id
        self._correlation_id = 0
        self._socket = socket.create_connection(address, timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            protocol = settings.get("security.protocol", "plaintext").lower()
            if protocol.endswith("ssl"):
                self._socket = _tls(settings).wrap_socket(self._socket, server_hostname=address[0])
            if protocol.startswith("sasl"):
                self._log_in(settings)
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def ask(self, request: Request, timeout_s: float) -> bytes:
        """Send it and wait for the answer; OSError if the broker is gone or too slow."""
        self._correlation_id += 1
        self._socket.settimeout(timeout_s)
        self._socket.sendall(request.framed(self._correlation_id, self._client_id))
        (size,) = struct.unpack(">i", self._received(4))
        if not 4 <= size <= LARGEST_ANSWER:
            raise OSError("What answers is no Kafka broker.")
        answer = self._received(size)
        if struct.unpack(">i", answer[:4])[0] != self._correlation_id:
            raise OSError("The broker answered something else than was asked.")
        return answer[4:]

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _received(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(size - len(parts))
            if not part:
                raise ConnectionError("The broker hung up.")
            parts += part
        return bytes(parts)

    def _log_in(self, settings: Mapping[str, str]) -> None:
        mechanism = settings.get("sasl.mechanism") or settings.get("sasl.mechanisms", "PLAIN")
        user, password = settings.get("sasl.username", ""), settings.get("sasl.password", "")
        error, offered = group_wire.read_handshake(
            self.ask(group_wire.sasl_handshake(mechanism), 10)
        )
        if error:
            raise ConnectError(f"The broker does not take {mechanism}, but {', '.join(offered)}.")
        if mechanism == "PLAIN":
            self._sasl_step(f"\0{user}\0{password}".encode())
        elif mechanism in _HASHES:
            self._scram(_HASHES[mechanism], user, password)
        else:
            raise ConnectError(
                f"Workers log in by PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, not by {mechanism}."
            )

    def _sasl_step(self, message: bytes) -> bytes:
        answer = self.ask(group_wire.sasl_authenticate(message), 10)
        error, text, data = group_wire.read_authenticated(answer)
        if error:
            raise ConnectError(f"The broker refused the login: {text}")
        return data

    def _scram(self, digest: str, user: str, password: str) -> None:
        nonce = base64.b64encode(os.urandom(18)).decode()
        name = user.replace("=", "=3D").replace(",", "=2C")
        first = f"n={name},r={nonce}"
        server_first = self._sasl_step(f"n,,{first}".encode()).decode()
        given = dict(part.split("=", 1) for part in server_first.split(","))
        if not given["r"].startswith(nonce):
            raise ConnectError("The broker's login answer does not belong to our request.")
        salted = hashlib.pbkdf2_hmac(
            digest, password.encode(), base64.b64decode(given["s"]), int(given["i"])
        )
        client_key = hmac.digest(salted, b"Client Key", digest)
        without_proof = f"c=biws,r={given['r']}"
        signed = ",".join((first, server_first, without_proof)).encode()
        signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
        proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
        final = f"{without_proof},p={base64.b64encode(proof).decode()}"
        verdict = self._sasl_step(final.encode()).decode()
        server_key = hmac.digest(salted, b"Server Key", digest)
        expected = base64.b64encode(hmac.digest(server_key, signed, digest)).decode()
        if verdict != f"v={expected}":
            raise ConnectError("The broker does not know our password either: it is another.")


_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


def _tls(settings: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=settings.get("ssl.ca.location") or None)
    if settings.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        context.check_hostname = False
    if settings.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate := settings.get("ssl.certificate.location"):
        context.load_cert_chain(
            certificate, settings.get("ssl.key.location"), settings.get("ssl.key.password")
        )
    return context
