"""Refuses requests that a browser sends on behalf of another site's page.

A server on this machine is reachable from every web page that its user opens. The guard refuses what
such a page can send: requests of a foreign origin, requests to a name that an attacker's DNS points
here (DNS rebinding), and bodies that a browser sends without a CORS preflight. It does not replace
authentication: programs that are not browsers choose their headers freely.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from strom.http.errors import HttpError
from strom.http.hosts import Authority, parse_authority, parse_host
from strom.model.errors import UserError
from strom.model.http_settings import ALLOWED_HOSTS

BAD_REQUEST = 400
FORBIDDEN = 403
UNSUPPORTED_MEDIA_TYPE = 415

HEADERS = frozenset(
    {
        "authorization",
        "content-length",
        "content-type",
        "host",
        "origin",
        "sec-fetch-site",
        "transfer-encoding",
    }
)
"""The headers that a `RequestHead` holds."""

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Safe as in RFC 9110, section 9.2.1: they change nothing."""
_DEFAULT_PORTS = {"http": 80, "https": 443}
_OWN_SITE = frozenset({"same-origin", "none"})
_SHOWN_CHARACTERS = 100


@dataclass(frozen=True)
class RequestHead:
    """What the guard and authentication need of a request; a repeated header is there twice."""

    method: str
    hosts: tuple[str, ...]
    origins: tuple[str, ...] = ()
    fetch_sites: tuple[str, ...] = ()
    content_types: tuple[str, ...] = ()
    has_body: bool = False
    local_address: str | None = None
    """The address of this machine to which the connection was made."""
    peer_address: str | None = None
    """The address of the client, or of the proxy in front of it."""
    authorizations: tuple[str, ...] = field(default=(), repr=False)  # has credentials in it

    @classmethod
    def from_headers(
        cls,
        method: str,
        headers: Iterable[tuple[str, str]],
        local_address: str | None,
        peer_address: str | None = None,
    ) -> Self:
        """Make it from headers whose names are in lower case."""
        found: dict[str, list[str]] = {}
        for name, value in headers:
            found.setdefault(name, []).append(value.strip())
        has_body = "transfer-encoding" in found or any(
            length != "0" for length in found.get("content-length", ())
        )
        return cls(
            method,
            tuple(found.get("host", ())),
            tuple(found.get("origin", ())),
            tuple(found.get("sec-fetch-site", ())),
            tuple(found.get("content-type", ())),
            has_body,
            local_address,
            peer_address,
            tuple(found.get("authorization", ())),
        )


@dataclass(frozen=True)
class Guard:
    """The rules of one server."""

    known_hosts: frozenset[str] = frozenset()
    """In canonical form; loopback names are always known."""
    any_address: bool = False
    """Whether the server listens on all addresses of its machine, so that each of them is known."""
    other_media_types: frozenset[str] = frozenset()
    """Media types of bodies beside JSON; must not be any that a browser sends without a preflight."""

    @classmethod
    def create(
        cls,
        listens_on: str,
        allowed_hosts: Iterable[str] = (),
        *,
        advertised: str | None = None,
        other_media_types: Iterable[str] = (),
    ) -> Self:
        """Make the guard of a server from its settings; UserError if an allowed host is malformed."""
        known = set()
        for text in allowed_hosts:
            parsed = parse_host(text)
            if parsed is None:
                raise UserError(
                    f"Invalid host {text!r} in {ALLOWED_HOSTS.name}. List host names or addresses "
                    "without scheme and port, separated by commas."
                )
            known.add(parsed.host)
        bound = parse_host(listens_on)
        named = (bound, parse_host(advertised or ""))
        known.update(parsed.host for parsed in named if parsed is not None)
        any_address = not listens_on or (
            bound is not None and bound.address is not None and bound.address.is_unspecified
        )
        return cls(frozenset(known), any_address, frozenset(other_media_types))

    def check(self, head: RequestHead) -> HttpError | None:
        """Return why the request is refused, or None if it is allowed."""
        if len(head.hosts) != 1:
            return HttpError(
                BAD_REQUEST,
                f"The request has {len(head.hosts)} Host headers; exactly one is required.",
            )
        host = parse_authority(head.hosts[0])
        if host is None:
            return HttpError(
                BAD_REQUEST,
                f"The Host header {_shown(head.hosts[0])} is not a host name or address.",
            )
        if not self._is_known(host, head.local_address):
            return HttpError(
                FORBIDDEN,
                f"The host name {_shown(host.host)} is not known to this server. If it is one of its "
                f"names, add it to the setting {ALLOWED_HOSTS.name}.",
            )
        return _check_origin(head, host) or self._check_body(head)

    def _is_known(self, host: Authority, local_address: str | None) -> bool:
        if host.host == "localhost" or host.host in self.known_hosts:
            return True
        if host.address is None:
            return False
        # Only names can be rebound: with an address as Host, the browser connected to that address.
        if host.address.is_loopback or self.any_address:
            return True
        local = parse_host(local_address) if local_address else None
        return local is not None and local.host == host.host

    def _check_body(self, head: RequestHead) -> HttpError | None:
        if not head.has_body or head.method in _SAFE_METHODS:
            return None
        given = head.content_types[0] if len(head.content_types) == 1 else ""
        media_type = given.partition(";")[0].strip().lower()
        if _is_json(media_type) or media_type in self.other_media_types:
            return None
        wrong = (
            f"Content-Type {_shown(given)} is not supported."
            if given
            else f"The request has a body and {len(head.content_types)} Content-Type headers."
        )
        return HttpError(
            UNSUPPORTED_MEDIA_TYPE, f"{wrong} Send JSON with Content-Type: application/json."
        )


def _check_origin(head: RequestHead, host: Authority) -> HttpError | None:
    for origin in head.origins:
        if not _is_same_origin(origin, host):
            return HttpError(
                FORBIDDEN,
                f"Requests of web pages from another origin are refused: {_shown(origin)} is not the "
                f"origin of {_shown(head.hosts[0])}.",
            )
    for site in head.fetch_sites:
        # A page can have a browser GET without an Origin header: images, frames, links.
        if site not in _OWN_SITE:
            return HttpError(
                FORBIDDEN,
                f"Requests of web pages from another site are refused (Sec-Fetch-Site: "
                f"{_shown(site)}). Type the address into the browser to open it.",
            )
    return None


def _is_same_origin(origin: str, host: Authority) -> bool:
    scheme, _, rest = origin.partition("://")
    # https is the scheme of pages behind a proxy that terminates TLS and passes Host on.
    default = _DEFAULT_PORTS.get(scheme.lower())
    parsed = parse_authority(rest)
    if default is None or parsed is None:  # "null" among others
        return False
    return (parsed.host, _port(parsed, default)) == (host.host, _port(host, default))


def _port(authority: Authority, default: int) -> int:
    return default if authority.port is None else authority.port


def _is_json(media_type: str) -> bool:
    kind, _, name = media_type.partition("/")
    return kind == "application" and (name == "json" or name.endswith("+json"))


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…")
