"""A real HTTP server of the tests' own, that does what each test tells it to."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass
class Asked:
    """A request that came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: Any
    body: bytes


@dataclass
class Reply:
    """What is answered."""

    body: bytes | str = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class WebServer:
    """Answers by `reply`, which a test sets; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.reply: Callable[[Asked], Reply] = lambda asked: Reply(status=404)
        self.failures: list[Reply | None] = []
        """Answers that come first, one after the other; None hangs up without a word."""
        self._port = 0
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 65536  # head and body in one packet: two would wait for each other

            def handle_one(self) -> None:
                owner._handle(self)

            do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = handle_one  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._server.daemon_threads = True
        self._port = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
            self._server = None

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        address = urlsplit(handler.path)
        body = handler.rfile.read(int(handler.headers.get("content-length") or 0))
        query = dict(parse_qsl(address.query, keep_blank_values=True))
        asked = Asked(handler.command, address.path, query, handler.headers, body)
        self.asked.append(asked)
        reply = self.failures.pop(0) if self.failures else self.reply(asked)
        if self._server is None or reply is None:  # gone meanwhile: kept-alive connections end too
            handler.close_connection = True
            handler.connection.close()
            return
        data = reply.body.encode() if isinstance(reply.body, str) else reply.body
        handler.send_response(reply.status)
        for name, value in reply.headers.items():
            handler.send_header(name, value)
        handler.send_header("content-length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)


@contextmanager
def web_server() -> Iterator[WebServer]:
    server = WebServer()
    try:
        yield server
    finally:
        server.stop()
