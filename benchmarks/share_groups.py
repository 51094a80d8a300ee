"""Records through a share group, by Kafka's own `ShareConsumerPerformance`: records per second.

The tool counts from its own start, and a share group takes some seconds to begin. So its
reports are read, and what counts is from the first one that has records to the end.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from benchmarks.clients import Produce, run
from benchmarks.internal_topics import SHARE_STATE, keep_promise
from benchmarks.peers import VARIANTS, Peer, Variant, running_both
from benchmarks.results import Measurement
from benchmarks.session import Session, in_turn
from tools.kafka import run_tool

AREA = "share groups"
CASE = "100 B, 1 consumer, 3 partitions"
TOOL = "org.apache.kafka.tools.ShareConsumerPerformance"
PARTITIONS = 3
_REPORT_MS = 100
_TOOL_FLAGS = ("-Xmx512m",)
"""Made for speed, unlike those of the tests."""
_PATIENCE_SECONDS = 300


def steps(session: Session) -> int:
    """How many steps the progress bar has."""
    return len(VARIANTS) * (session.scale.rounds + 1)


def measure(session: Session) -> Iterator[Measurement]:
    """Every variant in turns. A round before the first one warms up and is dropped."""
    with running_both() as peers:
        for peer in peers.values():
            create_state_topic(peer)
        for round_number in range(-1, session.scale.rounds):
            for variant in in_turn(VARIANTS, round_number):
                session.step(f"share groups: {variant.title}")
                found = _measure_one(session, variant, peers[variant.broker])
                if round_number >= 0:
                    for metric, value in found:
                        yield Measurement(AREA, CASE, metric, variant.key, round_number, value)


def create_state_topic(peer: Peer) -> None:
    """Make the broker create its internal topic, by a share group that reads a little."""
    with peer.topic("first-shared", 1, {}) as topic:
        _share(peer, topic, records=10, partitions=1)


def _measure_one(session: Session, variant: Variant, peer: Peer) -> list[tuple[str, float]]:
    keep_promise(peer, SHARE_STATE, variant)
    records = session.scale.shared_records
    with peer.topic(f"shared-{variant.key}", PARTITIONS, variant.topic_settings) as topic:
        output, cpu = _share(peer, topic, records, PARTITIONS)
    rate = records_per_second(output, records)
    return [("consume", rate), ("consume_cpu", cpu * 1_000_000 / records)]


def _share(peer: Peer, topic: str, records: int, partitions: int) -> tuple[str, float]:
    """Produce records and read them by a share group: the tool's reports, and the broker's CPU time."""
    run(Produce(peer.bootstrap_servers, topic, records, partitions=partitions))
    peer.set_group(topic, {"share.auto.offset.reset": "earliest"})
    before = peer.cpu_seconds()
    done = run_tool(
        TOOL,
        *("--bootstrap-server", peer.bootstrap_servers, "--topic", topic, "--group", topic),
        *("--num-records", str(records), "--timeout", "30000"),
        *("--show-detailed-stats", "--reporting-interval", str(_REPORT_MS), "--hide-header"),
        timeout_s=_PATIENCE_SECONDS,
        flags=_TOOL_FLAGS,
    )
    if done.returncode:
        raise RuntimeError(f"the tool failed: {done.stderr.strip()}")
    return done.stdout, peer.cpu_seconds() - before


class _Report(NamedTuple):
    """When, and how many records up to then."""

    at: datetime
    records: int


def records_per_second(output: str, records: int) -> float:
    """The rate from the tool's first report with records to its end."""
    reports = [_report(line) for line in output.splitlines() if line.count(",") == 6]
    first, last = reports[0], reports[-1]
    if last.records < records:
        raise RuntimeError(f"only {last.records} of {records} records came")
    return (last.records - first.records) / (last.at - first.at).total_seconds()


def _report(line: str) -> _Report:
    """`start, end, MB, MB/s, records/s, records, ms`; the records are all up to then."""
    fields = line.split(", ")
    at = datetime.strptime(fields[1] + "000", "%Y-%m-%d %H:%M:%S:%f")  # noqa: DTZ007 - a difference
    return _Report(at, int(fields[5]))
