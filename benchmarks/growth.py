"""Whether a broker stays as fast when its logs are long and its partitions many."""

from collections.abc import Iterator

from benchmarks.clients import Consume, Produce, run
from benchmarks.comparison import GROWTH_LARGE, GROWTH_SMALL
from benchmarks.peers import KAFKA, STROM_OS, Peer, Variant, running
from benchmarks.raw_client import ProduceRequests, RandomFetches
from benchmarks.results import Measurement
from benchmarks.session import Session

_VARIANTS = (STROM_OS, KAFKA)
_BATCH_RECORDS = 100
"""Small batches, so that a long log has many of them."""
_LOAD_RECORDS = 200_000


def steps(session: Session) -> int:
    """How many steps the progress bar has."""
    return 2 * len(_VARIANTS) * (session.scale.rounds + 2)


def measure(session: Session) -> Iterator[Measurement]:
    """First the length of a log, then the number of partitions."""
    for variant in _VARIANTS:
        yield from _longer_log(session, variant)
    for variant in _VARIANTS:
        yield from _more_partitions(session, variant)


def _longer_log(session: Session, variant: Variant) -> Iterator[Measurement]:
    """One broker with a short and a long log, measured in turns."""
    small, large = session.scale.small_log, session.scale.large_log
    case = f"{small:,} → {large:,} records in a partition"
    with running(variant.broker) as peer:
        session.step(f"growth: {large:,} records, {variant.title}")
        peer.create_topic("long", 1, variant.topic_settings)
        _fill(peer, "long", large)
        for round_number in range(-1, session.scale.rounds):
            session.step(f"growth: {case}, {variant.title}")
            short = f"short-{round_number}"
            peer.create_topic(short, 1, variant.topic_settings)
            _fill(peer, short, small)
            for area, topic, records in (
                (GROWTH_SMALL, short, small),
                (GROWTH_LARGE, "long", large),
            ):
                for metric, value in _log_figures(session, peer, topic, records):
                    if round_number >= 0:  # the one before warms up
                        yield Measurement(area, case, metric, variant.key, round_number, value)


def _fill(peer: Peer, topic: str, records: int) -> None:
    run(Produce(peer.bootstrap_servers, topic, records, batch_records=_BATCH_RECORDS))


def _log_figures(
    session: Session, peer: Peer, topic: str, records: int
) -> Iterator[tuple[str, float]]:
    servers, seconds = peer.bootstrap_servers, session.scale.latency_seconds
    yield "fetch_p50", run(RandomFetches(servers, topic, seconds, records)).p50_ms
    end = peer.end_offset(topic)
    produce = Produce(servers, topic, _LOAD_RECORDS, batch_records=_BATCH_RECORDS)
    yield "produce", run(produce)
    yield "consume", run(Consume(servers, topic, _LOAD_RECORDS, first_offset=end))
    yield "p50", run(ProduceRequests(servers, topic, seconds)).p50_ms


def _more_partitions(session: Session, variant: Variant) -> Iterator[Measurement]:
    """Two brokers of a kind, one with few and one with many partitions, measured in turns."""
    few, many = session.scale.few_partitions, session.scale.many_partitions
    case = f"{few:,} → {many:,} partitions"
    with running(variant.broker) as small, running(variant.broker) as large:
        session.step(f"growth: {many:,} partitions, {variant.title}")
        large.create_topic("many", many - few, variant.topic_settings)
        for peer in (small, large):
            peer.create_topic("load", few, variant.topic_settings)
        for round_number in range(-1, session.scale.rounds):
            session.step(f"growth: {case}, {variant.title}")
            for area, peer in ((GROWTH_SMALL, small), (GROWTH_LARGE, large)):
                for metric, value in _partition_figures(session, peer, few):
                    if round_number >= 0:  # the one before warms up
                        yield Measurement(area, case, metric, variant.key, round_number, value)


def _partition_figures(
    session: Session, peer: Peer, partitions: int
) -> Iterator[tuple[str, float]]:
    servers, seconds = peer.bootstrap_servers, session.scale.latency_seconds
    yield "produce", run(Produce(servers, "load", _LOAD_RECORDS, partitions=partitions))
    yield "p50", run(ProduceRequests(servers, "load", seconds, partitions=partitions)).p50_ms
    yield "resident", peer.resident_bytes() / 1e6
