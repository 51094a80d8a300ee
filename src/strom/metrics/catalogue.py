"""Every metric that a process of strom may expose, for the reference and the checks of dashboards."""

from collections.abc import Iterator

from strom.metrics import (
    connect,
    groups,
    http,
    loop,
    process,
    queues,
    registry,
    requests,
    storage,
    telemetry,
    views,
)
from strom.metrics.tables import MetricDefinition, MetricTable

SUBSYSTEMS: dict[str, tuple[MetricTable, ...]] = {
    "Kafka requests and connections": requests.TABLES,
    "Event loop": loop.TABLES,
    "Client telemetry": telemetry.TABLES,
    "Log": storage.TABLES,
    "Groups and transactions": groups.TABLES,
    "Queues": queues.TABLES,
    "Schema registry": registry.TABLES,
    "Connect": connect.TABLES,
    "Views": views.TABLES,
    "HTTP interfaces": http.TABLES,
    "Process": (process.BUILD, process.START),
}


def all_metrics() -> Iterator[tuple[MetricTable, MetricDefinition]]:
    """Every metric, with the table that names its labels."""
    for tables in SUBSYSTEMS.values():
        for table in tables:
            for metric in table.metrics:
                yield table, metric


def series_names(metric: MetricDefinition) -> tuple[str, ...]:
    """The names of a metric's series, as queries use them."""
    if metric.kind == "histogram":
        return tuple(f"{metric.name}_{suffix}" for suffix in ("bucket", "sum", "count"))
    return (metric.exposed_name,)
