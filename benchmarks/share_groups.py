"""Records through a share group, by Kafka's own `ShareConsumerPerformance`: records per second.

The tool counts from its own start, and a share group takes some seconds to begin. So its
reports are read, and what counts is from the first one that has records to the end.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from benchmarks.clients import Produce, run
from benchmarks.internal_topics import SHARE_STATE, create_coordinator, keep_promise
from benchmarks.peers import VARIANTS, Peer, Variant, running_both
from benchmarks.results import Measurement
from benchmarks.session import Session, in_turn
from tools.kafka import run_tool

AREA = "share groups"
CASE = "100 B, 1 consumer, 3 partitions"
TOOL = "org.apache.kafka.tools.ShareConsumerPerformance"
PARTITIONS = 3
_REPORT_MS = 100
_PATIENCE_SECONDS = 300


def steps(session: Session) -> int:
    """How many steps the progress bar has."""
    return len(VARIANTS) * (session.scale.rounds + 1)


def measure(session: Session) -> Iterator[Measurement]:
    """Every variant in turns. A round before the first one warms up and is dropped."""
    with running_both() as peers:
        for peer in peers.values():
            create_coordinator(peer, SHARE_STATE)
        for round_number in range(-1, session.scale.rounds):
            for variant in in_turn(VARIANTS, round_number):
                session.step(f"share groups: {variant.title}")
                found = _measure_one(session, variant, peers[variant.broker])
                if round_number >= 0:
                    for metric, value in found:
                        yield Measurement(AREA, CASE, metric, variant.key, round_number, value)


def _measure_one(session: Session, variant: Variant, peer: Peer) -> list[tuple[str, float]]:
    records = session.scale.shared_records
    keep_promise(peer, SHARE_STATE, variant)
    with peer.topic(f"shared-{variant.key}", PARTITIONS, variant.topic_settings) as topic:
        run(Produce(peer.bootstrap_servers, topic, records, partitions=PARTITIONS))
        peer.set_group(topic, {"share.auto.offset.reset": "earliest"})
        before = peer.cpu_seconds()
        rate = _consume(peer.bootstrap_servers, topic, records)
        cpu = peer.cpu_seconds() - before
    return [("consume", rate), ("consume_cpu", cpu * 1_000_000 / records)]


def _consume(bootstrap_servers: str, topic: str, records: int) -> float:
    done = run_tool(
        TOOL,
        *("--bootstrap-server", bootstrap_servers, "--topic", topic, "--group", topic),
        *("--num-records", str(records), "--timeout", "30000"),
        *("--show-detailed-stats", "--reporting-interval", str(_REPORT_MS), "--hide-header"),
        timeout_s=_PATIENCE_SECONDS,
    )
    if done.returncode:
        raise RuntimeError(f"the tool failed: {done.stderr.strip()}")
    return records_per_second(done.stdout, records)


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
