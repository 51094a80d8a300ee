"""The setting and the limits that all HTTP servers have."""

from dataclasses import dataclass

from strom.model.settings import Definition, Kind

ALLOWED_HOSTS = Definition(
    name="http.allowed.hosts",
    kind=Kind.LIST,
    default=(),
    doc="Further host names and addresses by which HTTP clients reach this server, separated by "
    "commas. Loopback names, the address listened on and an advertised name are always known; a "
    "request to another host is rejected, because a web page could reach this server by DNS "
    "rebinding.",
    live=False,
)


@dataclass(frozen=True)
class HttpLimits:
    """What clients may use of an HTTP server. Each limit ends a request of the client that exceeds it."""

    head_bytes: int = 64 * 1024
    """The request line and all headers. SQL statements come in the request line."""
    head_lines: int = 200
    """Each header costs about as much time as a hundred bytes of its value."""
    body_bytes: int = 16 * 1024 * 1024
    small_body_bytes: int = 64 * 1024
    """Smaller bodies, and as much of each larger one, do not count against `all_bodies_bytes`."""
    all_bodies_bytes: int = 64 * 1024 * 1024
    """What the bodies of all requests in flight may hold together, beyond their small parts."""
    connections: int = 500
    """Of one server, or half of the files that the process may open, if that is less."""
    head_s: float = 30.0
    """For a whole head, from its first byte."""
    body_s: float = 120.0
    """For a whole body; 16 MiB take that long at 1 Mbit/s."""
    idle_s: float = 60.0
    """Before the first byte of a request."""
    write_s: float = 60.0
    """For a client to read some of its response when its buffers are full."""
    linger_s: float = 2.0
    """For a refused client to read the reason, while the rest of its request is discarded."""
