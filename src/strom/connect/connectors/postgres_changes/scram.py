"""SCRAM-SHA-256 as a client speaks it (RFC 5802, RFC 7677), without channel binding."""

import base64
import hashlib
import hmac
import unicodedata
from typing import Final

MECHANISM: Final = "SCRAM-SHA-256"
_NO_BINDING: Final = "n,,"


class LoginRefused(Exception):
    """The server does not prove that it knows the password, or speaks otherwise than it should."""


class ScramClient:
    """One login: first words, answer to the challenge, check of the server's proof."""

    def __init__(self, password: str, nonce: str) -> None:
        self._password = unicodedata.normalize("NFKC", password).encode()
        self._nonce = nonce
        self._first = f"n=,r={nonce}"
        self._expected = b""

    def first(self) -> bytes:
        """The first words. PostgreSQL knows the user's name already."""
        return (_NO_BINDING + self._first).encode()

    def answer(self, challenge: bytes) -> bytes:
        """The proof that we know the password."""
        fields = _fields(challenge)
        try:
            nonce, salt, rounds = fields["r"], base64.b64decode(fields["s"]), int(fields["i"])
        except (KeyError, ValueError):
            raise LoginRefused("the server's challenge is none") from None
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise LoginRefused("the server's challenge is for somebody else")
        salted = hashlib.pbkdf2_hmac("sha256", self._password, salt, rounds)
        without_proof = f"c={base64.b64encode(_NO_BINDING.encode()).decode()},r={nonce}"
        signed = ",".join((self._first, challenge.decode(), without_proof)).encode()
        client_key = _sign(salted, b"Client Key")
        signature = _sign(hashlib.sha256(client_key).digest(), signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._expected = _sign(_sign(salted, b"Server Key"), signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def check(self, final: bytes) -> None:
        """LoginRefused unless the server knows the password too."""
        given = base64.b64decode(_fields(final).get("v", ""))
        if not hmac.compare_digest(given, self._expected):
            raise LoginRefused("the server does not know the password either")


def _fields(message: bytes) -> dict[str, str]:
    parts = (part.partition("=") for part in message.decode().split(","))
    return {name: value for name, _, value in parts}


def _sign(key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, hashlib.sha256).digest()
