"""The client side of SASL: PLAIN (RFC 4616), and SCRAM (RFC 5802, RFC 7677) by scramp."""

import ssl
from collections.abc import Callable, Sequence
from typing import Final

import scramp
from asn1crypto.x509 import Certificate

from strom.model.errors import UserError

MAX_ITERATIONS: Final = 1_000_000
"""Bounds the work that a server can demand before it has authenticated itself.

Kafka stores at most 16,384 iterations and OWASP recommends 600,000; a million takes up to a second.
scramp accepts ten million. It rejects fewer than 4,096, the minimum of RFC 7677 and of Kafka.
"""
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class AuthenticationFailed(UserError):
    """The server rejects the credentials, or does not prove that it knows the password."""


class _Verbatim:
    """A name or password that bypasses scramp's SASLprep (RFC 4013).

    Kafka and its clients use the UTF-8 bytes. SASLprep would change some passwords, and reject those with
    characters newer than Unicode 3.2, such as most emoji.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def __bytes__(self) -> bytes:
        return self._text.encode()

    def escape(self) -> str:
        return self._text.replace("=", "=3D").replace(",", "=2C")


class ScramExchange:
    """One authentication: first message, response to the challenge, check of the server's signature.

    Given the socket of a TLS connection, and a mechanism that ends in -PLUS, the exchange is bound to
    the server's certificate: a man in the middle cannot relay it.
    """

    def __init__(
        self,
        mechanisms: Sequence[str],
        username: str,
        password: str,
        tls: ssl.SSLSocket | None = None,
    ) -> None:
        self._client = _make_client(mechanisms, tls)
        self._client.username = _Verbatim(username)
        self._client.password = _Verbatim(password)
        self.mechanism: str = self._client.mechanism_name

    def first(self) -> bytes:
        """The client-first-message: user name and nonce."""
        message: str = self._client.get_client_first()
        return message.encode()

    def respond(self, challenge: bytes) -> bytes:
        """The client-final-message, which proves that the client knows the password."""
        try:
            self._client.set_server_first(challenge.decode())
        except (scramp.ScramException, UnicodeDecodeError) as error:
            raise _failed(f"invalid challenge: {error}") from None
        iterations = int(self._client.iterations)
        if iterations > MAX_ITERATIONS:
            raise _failed(f"{iterations} iterations exceed the limit of {MAX_ITERATIONS}")
        message: str = self._client.get_client_final()
        return message.encode()

    def verify(self, final: bytes) -> None:
        """AuthenticationFailed unless the server proves that it knows the password too."""
        try:
            self._client.set_server_final(final.decode())
        except (scramp.ScramException, UnicodeDecodeError):
            raise _failed("the server's signature does not match") from None


def authenticate(
    mechanism: str, username: str, password: str, exchange: Callable[[bytes], bytes]
) -> None:
    """Authenticate by one of MECHANISMS; `exchange` sends a message and returns the response."""
    if mechanism == "PLAIN":
        exchange(f"\0{username}\0{password}".encode())
        return
    scram = ScramExchange([mechanism], username, password)
    scram.verify(exchange(scram.respond(exchange(scram.first()))))


def _make_client(mechanisms: Sequence[str], tls: ssl.SSLSocket | None) -> scramp.ScramClient:
    binding = ("tls-server-end-point", tls) if tls is not None and _is_bindable(tls) else None
    placeholder = "-"
    try:
        return scramp.ScramClient(mechanisms, placeholder, placeholder, binding)
    except scramp.ScramException as error:
        raise _failed(str(error)) from None


def _is_bindable(tls: ssl.SSLSocket) -> bool:
    """Whether both sides agree on the hash function for the server's certificate.

    RFC 5929, section 4.1, leaves it undefined for signatures without a hash function, such as Ed25519.
    PostgreSQL offers channel binding with them nevertheless, and then fails.
    """
    certificate = tls.getpeercert(binary_form=True)
    if certificate is None:
        return False
    try:
        algorithm: str = Certificate.load(certificate).signature_algo
    except ValueError:  # an algorithm that asn1crypto does not know
        return False
    return algorithm in {"rsassa_pkcs1v15", "ecdsa"}


def _failed(reason: str) -> AuthenticationFailed:
    return AuthenticationFailed(f"SCRAM authentication failed: {reason}.")
