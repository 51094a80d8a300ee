"""Metrics that Kafka clients push to the broker (KIP-714), if client telemetry is enabled."""

from typing import NamedTuple

from strom.metrics.tables import MetricTable, counter, gauge

CLIENTS = MetricTable(
    ("client_id", "client_instance_id", "metric", "attributes"),
    (
        gauge(
            "strom_client_metric",
            "What a client pushed last: a number by the client's own name for it, such as "
            "`org.apache.kafka.producer.connection.creation.total`. Those that count never decrease.",
        ),
    ),
    ranked_by=0,
)
TELEMETRY = MetricTable(
    (),
    (
        gauge("strom_client_telemetry_clients", "Clients that have asked what to push."),
        counter("strom_client_telemetry_pushes", "Pushes that were accepted."),
        counter("strom_client_telemetry_pushes_refused", "Pushes that got an error."),
        counter(
            "strom_client_telemetry_series_dropped",
            "Numbers of pushes that exceeded a limit or that no subscription asks for.",
        ),
    ),
)
TABLES = (CLIENTS, TELEMETRY)


class ClientMetricReading(NamedTuple):
    """A row of CLIENTS."""

    client_id: str
    client_instance_id: str
    metric: str
    attributes: str
    value: float


class TelemetryReading(NamedTuple):
    """The row of TELEMETRY."""

    clients: int
    pushes: int
    refused: int
    dropped: int
