"""Requests to HTTP servers: rate limit, credentials, redirects, and which responses are retried."""

import email.utils
import re
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx2

from strom.connect.api import ConnectError, ConnectorSettings, Kind, RetriableError, setting
from strom.connect.setting_forms import choice, integer, secret, string

MAX_WAIT_S = 0.5
"""A request that is due later raises RequestNotDue instead of blocking: the task stays responsive."""
MAX_RETRY_AFTER_S = 3600.0
MAX_REDIRECTS = 10
_REDIRECTS = {301, 302, 303, 307, 308}
_RETRIABLE = {408, 425, 429, 500, 502, 503, 504}


@dataclass(frozen=True, kw_only=True)
class HttpClientSettings(ConnectorSettings):
    """Settings of every connector that sends HTTP requests."""

    headers: str | None = string(
        "headers", "Headers of every request, as `Name: value`, with | between them."
    )
    auth_type: str = choice(
        "auth.type",
        "How to authenticate: not at all, by user and password, or by a token.",
        ("none", "basic", "bearer"),
    )
    auth_user: str | None = string("auth.user", "For auth.type=basic.")
    auth_password: str | None = secret("auth.password", "For auth.type=basic.")
    auth_token: str | None = secret("auth.token", "For auth.type=bearer.")
    request_timeout_ms: int = integer(
        "request.timeout.ms", "The timeout of connecting, and of every wait for bytes.", 30_000
    )
    requests_per_second: float | None = setting(
        "requests.per.second",
        Kind.DOUBLE,
        "The most requests per second.",
        minimum=0.001,
    )
    max_response_bytes: int = integer(
        "max.response.bytes",
        "The limit of an uncompressed response; a larger one fails the task.",
        64 * 1024 * 1024,
    )

    def validate(self) -> Mapping[str, str]:
        problems = {}
        if self.auth_type == "basic" and (self.auth_user is None or self.auth_password is None):
            problems["auth.type"] = "auth.type=basic needs auth.user and auth.password."
        if self.auth_type == "bearer" and self.auth_token is None:
            problems["auth.type"] = "auth.type=bearer needs auth.token."
        if any(not name or not colon for name, colon, _ in self._header_parts()):
            problems["headers"] = "headers must be written as `Name: value | Name: value`."
        return problems

    def public_headers(self) -> dict[str, str]:
        """The headers of every request, to any server."""
        return {}

    def header_pairs(self) -> dict[str, str]:
        """The headers, perhaps secret, of requests to the servers in the configuration only."""
        pairs = {name: value for name, _, value in self._header_parts()}
        if self.auth_type == "bearer":
            pairs["Authorization"] = f"Bearer {self.auth_token}"
        return pairs

    def _header_parts(self) -> list[tuple[str, str, str]]:
        parts = [part.partition(":") for part in (self.headers or "").split("|") if part.strip()]
        return [(name.strip(), colon, value.strip()) for name, colon, value in parts]


def address_problem(address: str) -> str | None:
    """What is wrong with an address in the configuration; None if nothing is."""
    try:
        parts = urlsplit(address)
    except ValueError as error:
        return f"{address} is not an address: {error}."
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        return f"{address} is not an address; write http://… or https://…"
    if parts.password is not None:
        return "An address is shown, so it must not hold a password: use auth.type=basic."
    return None


class HttpResponse(NamedTuple):
    """A response, read to its end."""

    url: str
    """The address that it came from, after redirects."""
    status: int
    headers: httpx2.Headers
    body: bytes
    trusted: bool = True
    """Whether credentials and configured headers were sent with the request."""

    @property
    def address(self) -> str:
        """The address for messages, without what may be a secret of another server."""
        return without_user_info(self.url) if self.trusted else without_query(self.url)


class RequestNotDue(RetriableError):
    """The rate limit or the server's Retry-After does not allow the next request yet."""


class ResponseTooLarge(ConnectError):
    """A response that exceeds max.response.bytes."""


class RedirectRefused(ConnectError):
    """A redirect that is not followed."""


def _origin(address: str) -> object:
    """Scheme, host and port, by which servers are distinguished; None for what is no address."""
    try:
        return httpx2.URL(address).origin
    except httpx2.InvalidURL:
        return None


def _trusted_by(address: str) -> set[object]:
    """The origins that get the credentials of one: itself, and the same host by https.

    Many servers redirect http to https, from default port to default port.
    """
    origin = _origin(address)
    trusted = {origin}
    if origin is not None and (url := httpx2.URL(address)).scheme == "http" and url.port is None:
        trusted.add(url.copy_with(scheme="https").origin)
    return trusted


def redirect_location(response: HttpResponse) -> str | None:
    """The address that a response redirects to, for messages."""
    if response.status not in _REDIRECTS or "location" not in response.headers:
        return None
    return without_query(response.headers["location"])


def redirect_target(url: str, location: str) -> str:
    """The address that a redirect leads to; RedirectRefused if it leaves https or HTTP."""
    shown = without_query(url)
    try:
        target = httpx2.URL(url).join(location)
    except httpx2.InvalidURL as error:
        raise RedirectRefused(f"{shown} redirects to an invalid address: {error}.") from None
    where = without_query(str(target))
    if target.scheme not in {"http", "https"} or not target.host:
        raise RedirectRefused(f"{shown} redirects to {where}, which is not an HTTP address.")
    if target.scheme == "http" and httpx2.URL(url).scheme == "https":
        raise RedirectRefused(f"{shown} redirects from https to http, to {where}: not followed.")
    return str(target)


def _check_location(response: httpx2.Response) -> None:
    """Refuse an invalid redirect here: httpx would report a connection error, which is retried."""
    if response.status_code in _REDIRECTS and "location" in response.headers:
        redirect_target(str(response.url), response.headers["location"])


_USER_INFO = re.compile(r"^([^/?#]*//)[^/?#]*@")


def without_user_info(address: str) -> str:
    """An address for messages: that of a redirect may hold a user name and a password."""
    return _USER_INFO.sub(r"\1", address)


def without_query(address: str) -> str:
    """An address for messages that a server has sent: its query may hold a secret."""
    return without_user_info(address.partition("?")[0].partition("#")[0])


class HttpClient:
    """Sends requests within the rate limit, and not before a server's Retry-After.

    Credentials and configured headers go to the servers in the configuration only: not along a
    redirect to another origin, and not to an address in a response. A server configured by http is
    the same one by https.
    """

    def __init__(
        self,
        settings: HttpClientSettings,
        stopping: threading.Event,
        *,
        named: Collection[str] | None = None,
        connections: int = 1,
        redirects: bool = True,
    ) -> None:
        """`named` are the addresses whose servers are trusted with credentials; None: all."""
        basic = httpx2.BasicAuth(settings.auth_user or "", settings.auth_password or "")
        self._settings = settings
        self._client = self._new_client(
            auth=basic if settings.auth_type == "basic" else None,
            headers=settings.public_headers() | settings.header_pairs(),
            limits=httpx2.Limits(
                max_connections=connections, max_keepalive_connections=connections
            ),
        )
        self._without_secrets: httpx2.Client | None = None
        self._trusted = None if named is None else set().union(*map(_trusted_by, named))
        self._redirects = redirects
        self._stopping = stopping
        self._limit = settings.max_response_bytes
        rate = settings.requests_per_second
        self._pause = 1 / rate if rate else 0.0
        self._not_before = 0.0
        self._lock = threading.Lock()

    @property
    def ready_in(self) -> float:
        """Seconds until the next request may be made."""
        return max(0.0, self._not_before - time.monotonic())

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> HttpResponse:
        """Send one request and read the response, after redirects.

        RetriableError if the server cannot be reached, or responds with a status that is worth a
        retry; its Retry-After is respected. RedirectRefused for a redirect that is not followed. Any
        other response is returned.
        """
        self._wait_for_turn()
        response = self._once(self._is_trusted(url), method, url, headers, content)
        for _ in range(MAX_REDIRECTS):
            target = self._next_address(response)
            if target is None:
                break
            # Once outside the origin, never trusted again: that server chooses the next address.
            trusted = response.trusted and _origin(target) in _trusted_by(response.url)
            response = self._once(trusted, method, target, headers, content)
        else:
            if self._next_address(response) is not None:
                raise RedirectRefused(f"{url} redirects more than {MAX_REDIRECTS} times.")
        if response.status in _RETRIABLE:
            self._delay_for(response.headers.get("retry-after"))
            raise RetriableError(
                f"{url} responded with {response.status}: {start_of(response.body)}"
            )
        return response

    def _is_trusted(self, url: str) -> bool:
        return self._trusted is None or _origin(url) in self._trusted

    def _client_without_secrets(self) -> httpx2.Client:
        """A client that never had credentials, so that none can leak; it shares no cookies either."""
        if self._without_secrets is None:
            self._without_secrets = self._new_client(headers=self._settings.public_headers())
        return self._without_secrets

    def _new_client(self, **more: Any) -> httpx2.Client:
        timeout = self._settings.request_timeout_ms / 1000
        hooks = {"response": [_check_location]}
        return httpx2.Client(timeout=timeout, event_hooks=hooks, **more)

    def _next_address(self, response: HttpResponse) -> str | None:
        """The address to request next; None if the response is no redirect, or none are followed."""
        location = response.headers.get("location")
        if not self._redirects or response.status not in _REDIRECTS or location is None:
            return None
        return redirect_target(response.url, location)

    def _once(
        self,
        trusted: bool,
        method: str,
        url: str,
        headers: Mapping[str, str] | None,
        content: bytes | None,
    ) -> HttpResponse:
        """Send one request, without redirects."""
        client = self._client if trusted else self._client_without_secrets()
        shown = without_user_info(url) if trusted else without_query(url)
        try:
            with client.stream(method, url, headers=headers, content=content) as response:
                body = self._body(response)
                return HttpResponse(
                    str(response.url), response.status_code, response.headers, body, trusted
                )
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            raise ConnectError(f"{shown} cannot be requested: {error}") from error
        except httpx2.RequestError as error:
            reason = str(error) or type(error).__name__
            raise RetriableError(f"{shown} cannot be reached: {reason}") from error

    def close(self) -> None:
        self._client.close()
        if self._without_secrets is not None:
            self._without_secrets.close()

    def _wait_for_turn(self) -> None:
        """Wait if the next request is due soon; RequestNotDue if it is due later."""
        with self._lock:
            wait = self.ready_in
            if wait <= MAX_WAIT_S:
                self._not_before = max(self._not_before, time.monotonic()) + self._pause
        if wait > MAX_WAIT_S:
            self._stopping.wait(MAX_WAIT_S)
            raise RequestNotDue(f"The next request is due in {wait:.1f} seconds.")
        if wait:
            self._stopping.wait(wait)

    def _body(self, response: httpx2.Response) -> bytes:
        body = bytearray()
        for block in response.iter_bytes():
            body += block
            if len(body) > self._limit:
                raise ResponseTooLarge(
                    f"The response of {without_query(str(response.url))} exceeds the limit of "
                    f"{self._limit} bytes (max.response.bytes)."
                )
        return bytes(body)

    def _delay_for(self, retry_after: str | None) -> None:
        seconds = retry_after_seconds(retry_after, time.time())
        if seconds is not None:
            with self._lock:
                wanted = time.monotonic() + min(seconds, MAX_RETRY_AFTER_S)
                self._not_before = max(self._not_before, wanted)


def is_due(wait: float, stopping: threading.Event) -> bool:
    """Wait for so many seconds, but only briefly; returns whether they are over."""
    if wait > 0:
        stopping.wait(min(wait, MAX_WAIT_S))
    return wait <= MAX_WAIT_S


def if_changed(etag: str | None, modified: str | None) -> dict[str, str]:
    """The headers of a request whose response is needed only if it differs from the last one."""
    headers = {"If-None-Match": etag, "If-Modified-Since": modified}
    return {name: text for name, text in headers.items() if text}


def retry_after_seconds(text: str | None, now: float) -> float | None:
    """The delay in a Retry-After header, which holds seconds or a date (RFC 9110, section 10.2.3)."""
    if text is None:
        return None
    if text.strip().isdecimal():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def start_of(body: bytes) -> str:
    """The beginning of a response, for messages."""
    return body[:200].decode("utf-8", "replace").strip() or "(empty)"
