"""The metrics of every process of strom: its version, and prometheus-client's process metrics."""

import platform
import time
from collections.abc import Iterator

from prometheus_client import GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.registry import CollectorRegistry

import strom
from strom.metrics.tables import MetricsSnapshot, MetricTable, gauge

BUILD = MetricTable(
    ("version", "python"),
    (gauge("strom_build_info", "Always 1; the labels name the release and Python's version."),),
)
START = MetricTable(
    (), (gauge("strom_start_time_seconds", "When the process started, in seconds since 1970."),)
)


class BuildCollector:
    """Version and start time."""

    tables: tuple[MetricTable, ...] = (BUILD, START)

    def __init__(self) -> None:
        self._labels = (strom.__version__, platform.python_version())
        self._started = time.time()

    def collect(self, into: MetricsSnapshot) -> Iterator[None]:
        into.add(BUILD, self._labels, (1,))
        into.add(START, (), (self._started,))
        yield


def process_metrics() -> CollectorRegistry:
    """CPU, memory, file descriptors and garbage collection, with prometheus-client's standard names.

    CPU, memory and descriptors are read from /proc, so that only Linux has them.
    """
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry
