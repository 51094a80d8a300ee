"""Metrics of Connect workers."""

from typing import NamedTuple

from strom.metrics.tables import MetricTable, counter, gauge

STATES = MetricTable(
    ("connector", "task", "state"),
    (
        gauge(
            "strom_connect_task_state",
            "1 for the state that a task on this worker is in; task -1 is the connector itself.",
            "connector-task-metrics status",
        ),
    ),
    ranked_by=0,
)
TASKS = MetricTable(
    ("connector", "task"),
    (
        counter(
            "strom_connect_task_records",
            "Records that a source has sent to topics, or that a sink has taken over.",
            "source-record-write-total, sink-record-send-total",
        ),
        counter("strom_connect_task_batches", "Polls that found records, or puts.", "batch-size"),
        counter(
            "strom_connect_task_batch_seconds",
            "Time spent in `poll` and `put` of the connector's own code.",
            "poll-batch-time, put-batch-time",
        ),
        counter(
            "strom_connect_task_errors",
            "Records that could not be handled and were skipped.",
            "total-records-skipped",
        ),
        counter(
            "strom_connect_task_dead_letters",
            "Records sent to the dead letter topic.",
            "deadletterqueue-produce-requests",
        ),
        counter("strom_connect_task_retries", "Calls that were retried.", "total-retries"),
        counter("strom_connect_task_failures", "How often the task has failed."),
        gauge(
            "strom_connect_sink_lag_records",
            "Records in the assigned partitions of a sink that it has not taken over.",
        ),
    ),
    ranked_by=0,
)
WORKER = MetricTable(
    (),
    (
        gauge("strom_connect_tasks", "Connectors and tasks that run on this worker.", "task-count"),
        gauge("strom_connect_holds_lease", "1 while the worker is a member of its group."),
    ),
)
TABLES = (STATES, TASKS, WORKER)


class TaskReading(NamedTuple):
    """A row of TASKS."""

    connector: str
    task: int
    records: int
    batches: int
    batch_seconds: float
    errors: int
    dead_letters: int
    retries: int
    failures: int
    lag: float


class TaskStats:
    """The counters of a task, written by its thread."""

    __slots__ = (
        "batch_seconds",
        "batches",
        "dead_letters",
        "errors",
        "failures",
        "lag",
        "records",
        "retries",
    )

    def __init__(self) -> None:
        self.records = 0
        self.batches = 0
        self.batch_seconds = 0.0
        self.errors = 0
        self.dead_letters = 0
        self.retries = 0
        self.failures = 0
        self.lag = float("nan")
        """Only a sink has one."""

    def batch(self, seconds: float) -> None:
        """Count one poll that found records, or one put."""
        self.batches += 1
        self.batch_seconds += seconds

    def read(self, connector: str, task: int) -> TaskReading:
        """What was counted up to now."""
        return TaskReading(
            connector,
            task,
            self.records,
            self.batches,
            self.batch_seconds,
            self.errors,
            self.dead_letters,
            self.retries,
            self.failures,
            self.lag,
        )
