"""Authentication of clients: an interface chooses a function, which gets the head of each request."""

import base64
import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from strom.http.errors import HttpError
from strom.http.guard import RequestHead


@dataclass(frozen=True)
class Principal:
    """An authenticated client; applications find it as `scope["user"]`."""

    name: str


Authenticate: TypeAlias = Callable[[RequestHead], Awaitable[Principal]]
"""Returns the client's principal, or raises the HttpError with its challenge."""


@dataclass(frozen=True)
class BasicLogin:
    """HTTP Basic authentication (RFC 7617) with one user."""

    user: str
    password: str = field(repr=False)
    realm: str
    is_allowed_from: Callable[[str, str], bool]
    """Whether this user may log in from an address."""

    async def __call__(self, head: RequestHead) -> Principal:
        if self._is_valid(head) and self.is_allowed_from(self.user, head.peer_address or ""):
            return Principal(self.user)
        challenge = {"WWW-Authenticate": f'Basic realm="{self.realm}"'}
        raise HttpError(401, "Login failed", headers=challenge)

    def _is_valid(self, head: RequestHead) -> bool:
        if len(head.authorizations) != 1:
            return False
        scheme, _, given = head.authorizations[0].partition(" ")
        try:
            login = base64.b64decode(given, validate=True)
        except ValueError:
            return False
        expected = f"{self.user}:{self.password}".encode()
        return hmac.compare_digest(login, expected) and scheme.lower() == "basic"
