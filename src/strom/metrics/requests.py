"""Metrics of the Kafka protocol and of connections."""

from collections.abc import Callable
from typing import Any, NamedTuple

from strom.metrics.instruments import SECONDS, HistogramCounts, HistogramValue
from strom.metrics.tables import MetricTable, counter, gauge, histogram

REQUESTS = MetricTable(
    ("request",),
    (
        histogram(
            "strom_kafka_request_seconds",
            "From the receipt of a request to its response, waiting included: for the disk, for other "
            "members of a group, for records to fetch.",
            "RequestMetrics TotalTimeMs, RequestsPerSec",
        ),
        counter(
            "strom_kafka_request_bytes",
            "Bytes of requests received.",
            "RequestMetrics RequestBytes",
        ),
        counter(
            "strom_kafka_response_bytes", "Bytes of responses.", "BrokerTopicMetrics BytesOutPerSec"
        ),
    ),
)
ERRORS = MetricTable(
    ("request", "error"),
    (
        counter(
            "strom_kafka_request_errors",
            "Error codes in responses. A response may hold several, one for each partition.",
            "RequestMetrics ErrorsPerSec",
        ),
    ),
)
INVALID = MetricTable(
    (),
    (
        counter(
            "strom_kafka_invalid_requests",
            "Requests that closed their connection: malformed, of an unsupported version, or failed in "
            "the broker.",
        ),
    ),
)
CONNECTIONS = MetricTable(
    ("listener",),
    (
        gauge("strom_connections", "Open connections.", "connection-count"),
        gauge(
            "strom_network_memory_bytes",
            "Bytes that large requests and unsent responses take.",
            "MemoryPoolUsed",
        ),
        gauge("strom_network_memory_limit_bytes", "How many bytes those may take together."),
    ),
)
CONNECTION_LIMIT = MetricTable(
    (), (gauge("strom_connections_limit", "How many connections may be open at once."),)
)
REFUSED = MetricTable(
    ("reason",),
    (
        counter(
            "strom_connections_refused", "Connections that exceeded a limit, by the setting's name."
        ),
    ),
)
DROPPED = MetricTable(
    ("listener", "reason"),
    (
        counter(
            "strom_connections_dropped",
            "Connections that the broker closed: `slow_upload` (it held memory that other requests "
            "waited for), `request_timeout` (a request was incomplete for too long), `idle`, "
            "`login_timeout`, `missed_heartbeats`, `unread` (it did not read its last responses).",
        ),
    ),
)


class RequestStats:
    """The counters of the requests of one api key, written by the event loop."""

    __slots__ = ("bytes_in", "bytes_out", "count_errors", "errors", "seconds")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.errors: dict[int, int] = {}
        """Error counts by code."""
        self.count_errors: Callable[[Any, dict[int, int]], None] | None = None
        """Adds the error codes of a response to `errors`; set at the first response."""
        self.seconds = HistogramCounts(SECONDS)


class RequestReading(NamedTuple):
    """A row of REQUESTS."""

    request: str
    seconds: HistogramValue
    bytes_in: int
    bytes_out: int


class ErrorReading(NamedTuple):
    """A row of ERRORS."""

    request: str
    error: str
    responses: int


TABLES = (REQUESTS, ERRORS, INVALID, CONNECTIONS, CONNECTION_LIMIT, REFUSED, DROPPED)
