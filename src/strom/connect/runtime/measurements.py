"""The metrics of a worker."""

from collections.abc import Iterator

from strom.connect.runtime.worker import ConnectWorker
from strom.metrics.connect import STATES, TASKS, WORKER, TaskReading
from strom.metrics.exposition import MetricsRegistry
from strom.metrics.http import HTTP, HttpStats
from strom.metrics.tables import TableCollector


def make_worker_metrics(worker: ConnectWorker, requests: HttpStats) -> MetricsRegistry:
    """Make the metrics of a worker and its tasks; other workers expose their own."""

    def read_states() -> Iterator[tuple[str, int, str, int]]:
        for runner in worker.herder.runners():
            yield *runner.unit, runner.state, 1

    def read_tasks() -> Iterator[TaskReading]:
        for runner in worker.herder.runners():
            yield runner.stats.read(*runner.unit)

    def read_worker() -> Iterator[tuple[int, bool]]:
        yield len(worker.herder.runners()), worker.membership.holds_lease()

    tables = {STATES: read_states, TASKS: read_tasks, WORKER: read_worker, HTTP: requests.read}
    return MetricsRegistry([TableCollector(tables)], worker.settings.max_label_values)
