"""Metrics of the HTTP interfaces: registry, Connect, queue management, serving and the metrics port."""

from collections.abc import Iterator
from typing import NamedTuple

from strom.metrics.label_cap import OTHER
from strom.metrics.tables import MetricTable, counter

HTTP = MetricTable(
    ("server", "route", "method", "status"),
    (
        counter(
            "strom_http_requests",
            "Requests by route template and class of status. The route is `_other` for a path without a "
            "route; the status is `none` if the client disconnected before the response.",
        ),
        counter(
            "strom_http_request_seconds",
            "From the head of a request to the end of its response, waiting for its body included.",
        ),
    ),
)
TABLES = (HTTP,)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class HttpReading(NamedTuple):
    """A row of HTTP."""

    server: str
    route: str
    method: str
    status: str
    requests: int
    seconds: float


class HttpStats:
    """The counters of one server, written by its event loop."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._counts: dict[tuple[str, str, int], list[float]] = {}

    def count(self, route: str | None, method: str, status: int, seconds: float) -> None:
        """Count a response; status 0 if there was none. `route` must be a template, never a path."""
        key = (route or OTHER, method if method in METHODS else OTHER, status // 100)
        counts = self._counts.get(key)
        if counts is None:
            counts = self._counts[key] = [0, 0.0]
        counts[0] += 1
        counts[1] += seconds

    def read(self) -> Iterator[HttpReading]:
        """What was counted up to now."""
        for (route, method, status), (requests, seconds) in tuple(self._counts.items()):
            shown = f"{status}xx" if status else "none"
            yield HttpReading(self._server, route, method, shown, int(requests), seconds)
