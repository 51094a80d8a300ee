"""Just enough of HTTP/1.1 to answer JSON calls: bounded in size and time, nothing clever."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

from strom.http.guard import Guard, RequestHead
from strom.server.process_limits import ConnectionSlots

log = logging.getLogger(__name__)

MAX_HEAD_BYTES = 16 * 1024
MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_LENGTH_DIGITS = 20
PATIENCE_SECONDS = 30.0
MAX_CONNECTIONS = 200


@dataclass(frozen=True)
class Request:
    """A request that has wholly arrived."""

    method: str
    path: tuple[str, ...]
    """Its parts, unquoted: `/api/queues/%2F/a` is api, queues, /, a."""
    headers: dict[str, str]
    body: bytes
    host: str
    """Where the peer is."""

    def json(self) -> Any:
        """What the body says; HttpError if it is no JSON object."""
        try:
            value = json.loads(self.body or b"{}")
        except ValueError:
            raise HttpError(HTTPStatus.BAD_REQUEST, "the body is no JSON") from None
        if not isinstance(value, dict):
            raise HttpError(HTTPStatus.BAD_REQUEST, "the body is no JSON object")
        return value


class HttpError(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


Answer: TypeAlias = tuple[HTTPStatus, Any]
Handle: TypeAlias = Callable[[Request], Awaitable[Answer]]


class HttpServer:
    """Reads requests, one after the other on each connection, and writes what the handler answers."""

    def __init__(self, handle: Handle, guard: Guard, slots: ConnectionSlots | None = None) -> None:
        self.port = 0
        self._handle = handle
        self._guard = guard
        self._slots = slots or ConnectionSlots(MAX_CONNECTIONS)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[Any]] = set()

    async def start(self, host: str, port: int) -> None:
        """Listen; OSError if the port cannot be had."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=MAX_HEAD_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Let everyone go."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a task runs this
        self._connections.add(task)
        try:
            if len(self._connections) <= MAX_CONNECTIONS and self._slots.take(task):
                while await self._serve_one(reader, writer):
                    pass
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._connections.discard(task)
            self._slots.release(task)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether the connection goes on."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
            stays = False
            try:
                method, target, fields = _read_head(head)
                headers = dict(fields)
                size = _body_size(fields)
                stays = headers.get("connection", "").lower() != "close"
                body = await reader.readexactly(size)
                self._check(method, fields, writer)
                path = _path_of(target)
                peer = writer.get_extra_info("peername")
                request = Request(method, path, headers, body, peer[0] if peer else "")
                status, value = await self._handle(request)
            except HttpError as error:
                status, value = error.status, {"error": error.status.phrase, "reason": error.reason}
                stays = stays and error.status is not HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            except Exception:
                log.exception("A management request failed")
                status, value = HTTPStatus.INTERNAL_SERVER_ERROR, {"error": "internal error"}
            writer.write(_answer(status, value, stays))
            await writer.drain()
        return stays

    def _check(
        self, method: str, fields: list[tuple[str, str]], writer: asyncio.StreamWriter
    ) -> None:
        local = writer.get_extra_info("sockname")
        head = RequestHead.from_headers(method, fields, local[0] if local else None)
        refusal = self._guard.check(head)
        if refusal is not None:
            raise HttpError(HTTPStatus(refusal.status), refusal.message)


def _read_head(head: bytes) -> tuple[str, str, list[tuple[str, str]]]:
    lines = head.decode("latin-1").split("\r\n")
    parts = lines[0].split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise HttpError(HTTPStatus.BAD_REQUEST, "that is not HTTP/1.1")
    fields = []
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if colon:
            fields.append((name.strip().lower(), value.strip()))
    return parts[0], parts[1], fields


def _path_of(target: str) -> tuple[str, ...]:
    try:
        path = urlsplit(target).path
    except ValueError:
        raise HttpError(HTTPStatus.BAD_REQUEST, "the target is no URL") from None
    return tuple(unquote(part) for part in path.split("/") if part)


def _body_size(fields: list[tuple[str, str]]) -> int:
    if any(name == "transfer-encoding" for name, _ in fields):
        raise HttpError(HTTPStatus.LENGTH_REQUIRED, "say the length of the body")
    lengths = [text for name, text in fields if name == "content-length"]
    # Of two lengths a proxy may have taken the other (RFC 9112, section 6.3).
    if len(lengths) > 1:
        raise HttpError(HTTPStatus.BAD_REQUEST, "the request has several Content-Length headers")
    text = lengths[0] if lengths else "0"
    if not text.isascii() or not text.isdigit():
        raise HttpError(HTTPStatus.BAD_REQUEST, "the length of the body is no number")
    if len(text) > MAX_LENGTH_DIGITS or int(text) > MAX_BODY_BYTES:
        raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {MAX_BODY_BYTES} bytes")
    return int(text)


def _answer(status: HTTPStatus, value: Any, stays: bool) -> bytes:
    body = b"" if value is None else json.dumps(value, default=str).encode()
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-cache",
        "X-Content-Type-Options: nosniff",
        f"Connection: {'keep-alive' if stays else 'close'}",
    ]
    if status is HTTPStatus.UNAUTHORIZED:
        lines.append('WWW-Authenticate: Basic realm="strom queues"')
    return "\r\n".join([*lines, "", ""]).encode() + body
