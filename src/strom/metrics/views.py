"""Metrics of views."""

from typing import NamedTuple

from strom.metrics.tables import MetricTable, counter, gauge

VIEWS = MetricTable(
    ("view",),
    (
        gauge("strom_view_lag_records", "Records of its topic that the view has not counted in."),
        gauge(
            "strom_view_freshness_seconds",
            "Queries see every record that was in the topic so long ago.",
        ),
        gauge("strom_view_segments", "Segments of the active version: what a query has to merge."),
        gauge(
            "strom_view_batch_age_seconds",
            "Age of the newest batch of the active version; absent while there is none.",
        ),
        gauge(
            "strom_view_versions",
            "Versions, those included that are being built or kept for a rollback.",
        ),
        gauge("strom_view_skipped_records", "Records that the active version cannot compute."),
        gauge("strom_view_set_aside", "1 while the view gets no more records, because it failed."),
        counter("strom_view_compactions", "Compactions that merged segments."),
    ),
    ranked_by=0,
)
STREAMS = MetricTable(
    ("topic",),
    (
        counter("strom_view_micro_batches", "Micro-batches of the speed layer."),
        counter("strom_view_micro_batch_seconds", "Time that micro-batches took."),
        gauge("strom_view_last_micro_batch_seconds", "Time that the last micro-batch took."),
        counter("strom_view_records", "Records that the speed layer has taken in."),
        counter("strom_view_dead_letters", "Malformed records."),
        gauge(
            "strom_view_served_age_seconds",
            "Age of records when queries could see them: 99th percentile of the last ones.",
        ),
    ),
    ranked_by=3,
)
OUTAGES = MetricTable(
    (),
    (gauge("strom_view_outages", "Threads of the project that fail at present and are retried."),),
)
TABLES = (VIEWS, STREAMS, OUTAGES)


class ViewReading(NamedTuple):
    """A row of VIEWS; NaN where there is no such value."""

    view: str
    lag: float
    freshness_seconds: float
    segments: int
    batch_age_seconds: float
    versions: int
    skipped: int
    is_set_aside: bool
    compactions: int


class StreamReading(NamedTuple):
    """A row of STREAMS."""

    topic: str
    micro_batches: int
    seconds: float
    last_seconds: float
    records: int
    dead_letters: int
    served_age_seconds: float
