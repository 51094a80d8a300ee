"""What counting costs: each piece on a hot path, and a scrape of many topics.

python -m benchmarks.metrics             both; a few seconds
"""

import time
import timeit
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter

from strom.metrics.exposition import MetricsRegistry
from strom.metrics.instruments import HistogramCounts
from strom.metrics.requests import RequestStats
from strom.metrics.storage import LogCollector, PartitionReading
from strom.server.kafka.response_errors import error_counter
from strom.wire.kafka.messages.k00_produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

ROUNDS = 200_000
REPEATS = 5
TOPICS = 10_000


def counting() -> Iterator[tuple[str, float]]:
    """The nanoseconds that each piece of counting takes."""
    histogram, stats = HistogramCounts(), RequestStats()
    partition = PartitionProduceResponse(index=0)
    response = ProduceResponse(
        responses=[TopicProduceResponse(name="clicks", partition_responses=[partition])]
    )
    count_errors = error_counter(ProduceResponse)
    labelled = Counter("requests", "For comparison.", ["request"], registry=CollectorRegistry())

    def request() -> None:
        """All that is counted of one produce request."""
        began = time.perf_counter()
        stats.bytes_in += 200
        stats.bytes_out += 40
        count_errors(response, stats.errors)
        stats.seconds.observe(time.perf_counter() - began)

    def integer() -> None:
        stats.bytes_in += 200

    yield "an integer", _nanoseconds(integer)
    yield "a histogram", _nanoseconds(lambda: histogram.observe(0.003))
    yield "errors of a response", _nanoseconds(lambda: count_errors(response, stats.errors))
    yield "a produce request in all", _nanoseconds(request)
    yield "prometheus-client, labelled", _nanoseconds(lambda: labelled.labels("Produce").inc())


def _nanoseconds(work: Callable[[], object]) -> float:
    empty = min(timeit.repeat(lambda: None, number=ROUNDS, repeat=REPEATS))
    return (min(timeit.repeat(work, number=ROUNDS, repeat=REPEATS)) - empty) / ROUNDS * 1e9


def scrape(topics: int = TOPICS) -> tuple[float, float, int, int]:
    """Seconds of CPU of a scrape in all and of its longest slice; slices; bytes."""
    readings = [
        PartitionReading(f"topic-{one}", 0, one, one, one, one, 1, 0, one, 0, False)
        for one in range(topics)
    ]
    registry = MetricsRegistry([LogCollector(lambda: iter(readings))])
    work = registry.slices()
    slices: list[float] = []
    while True:
        began = time.thread_time()
        try:
            next(work)
        except StopIteration as done:
            return sum(slices), max(slices), len(slices), len(done.value[0])
        slices.append(time.thread_time() - began)


def main() -> None:
    """Print all of it."""
    for name, nanoseconds in counting():
        print(f"{name:<30} {nanoseconds:7.0f} ns")
    seconds, longest, slices, size = scrape()
    print(
        f"a scrape of {TOPICS:,} topics       {seconds * 1000:7.0f} ms in {slices} slices, the longest "
        f"{longest * 1000:.1f} ms; {size / 1e6:.2f} MB"
    )


if __name__ == "__main__":
    main()
