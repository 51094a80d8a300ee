"""A small application behind the real server, and raw sockets to it."""

import asyncio
import contextlib
import json
import socket
from dataclasses import dataclass

from strom.http.application import HttpApplication, respond
from strom.http.errors import ErrorFormat
from strom.http.guard import Guard
from strom.http.json_body import read_body
from strom.http.json_thread import load_json_object
from strom.http.server import HttpListener, HttpServer, HttpThread
from strom.model.http_settings import HttpLimits

PLAIN = ErrorFormat("The small server", lambda error: {"error": error.message})
HOST = b"Host: localhost\r\n"
JSON = HOST + b"Content-Type: application/json\r\n"


class SmallApp:
    """Responds with the path and the size of the body, and can be made to wait, fail or flood."""

    def __init__(self):
        self.requests = []
        self.waiting = asyncio.Event()
        self.go_on = asyncio.Event()
        self.disconnects = 0

    async def __call__(self, scope, receive, send):
        path = scope["path"]
        self.requests.append(path)
        if path == "/fail":
            raise RuntimeError("the password is hunter2")
        if path == "/wait":
            self.waiting.set()
            await self.go_on.wait()
        if path == "/flood":
            await respond(send, 200, b"x" * 20_000_000)
            return
        try:
            body = await read_body(receive)
        except Exception:
            self.disconnects += 1
            raise
        if path == "/object":
            await load_json_object(body)
        found = {"path": path, "size": len(body), "user": getattr(scope["user"], "name", None)}
        await respond(send, 200, json.dumps(found).encode())


@dataclass
class Running:
    app: SmallApp
    server: HttpServer
    thread: HttpThread

    @property
    def port(self):
        return self.server.listener.port

    @property
    def connections(self):
        return len(self.server._state.connections)

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def exchange(self, sent):
        """Send bytes, then all that comes back until the server closes the connection."""
        with self.connect() as client:
            client.sendall(sent)
            return read_to_end(client)

    def get(self, path, *headers):
        """The response to a GET of its own connection: status and JSON."""
        lines = b"".join(one + b"\r\n" for one in headers) or HOST
        raw = self.exchange(
            b"GET " + path + b" HTTP/1.1\r\n" + lines + b"Connection: close\r\n\r\n"
        )
        [(status, body)] = responses(raw)
        return status, json.loads(body)

    def call(self, work):
        """Run a function in the server's event loop."""
        self.thread._started.result().call_soon_threadsafe(work)


@contextlib.contextmanager
def running(errors=PLAIN, limits=HttpLimits(), slots=None, **more):  # noqa: B008
    app = SmallApp()
    guarded = HttpApplication(app, guard=Guard.create("127.0.0.1"), errors=errors, **more)
    listener = HttpListener("127.0.0.1", 0, interface="The small server", setting="port")
    server = HttpServer(guarded, listener, limits=limits, slots=slots)
    thread = HttpThread(server, "small-server")
    thread.start()
    try:
        yield Running(app, server, thread)
    finally:
        thread.stop()
    assert thread.join(0)


def read_to_end(client):
    received = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(65536):
            received += part
    return bytes(received)


def read_one(client):
    """One response from a connection that stays open."""
    received = b""
    while not (found := responses(received, partial=True)):
        part = client.recv(65536)
        assert part, "the connection was closed"
        received += part
    return found[0]


def responses(raw, partial=False):
    """Status and body of each response in the bytes."""
    found = []
    while raw:
        head, end, rest = raw.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        size = int(fields.get(b"content-length", 0))
        if partial and (not end or len(rest) < size):
            break
        found.append((int(head.split()[1]), rest[:size]))
        raw = rest[size:]
    return found
