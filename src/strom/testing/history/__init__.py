"""A checker of client histories, after Jepsen's checker for Kafka."""

from strom.testing.history.checking import check_history
from strom.testing.history.findings import KAFKA_ALLOWS, Anomaly, Finding, HistoryError, Verdict
from strom.testing.history.operations import (
    NEVER,
    Commit,
    OffsetFetch,
    Operation,
    Outcome,
    Owns,
    Read,
    Recorder,
    Running,
    Send,
    Step,
    read_lines,
)

__all__ = [
    "KAFKA_ALLOWS",
    "NEVER",
    "Anomaly",
    "Commit",
    "Finding",
    "HistoryError",
    "OffsetFetch",
    "Operation",
    "Outcome",
    "Owns",
    "Read",
    "Recorder",
    "Running",
    "Send",
    "Step",
    "Verdict",
    "check_history",
    "read_lines",
]
