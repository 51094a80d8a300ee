"""The clients of the benchmark do what they claim, on strom alone."""

import pytest

from benchmarks.clients import Consume, Produce, clicks, run
from benchmarks.peers import STROM_DISK, STROM_OS, Peer, ResidentPeak, running
from benchmarks.raw_client import ProduceRequests, RandomFetches

RECORDS = 2_500


@pytest.fixture(scope="module")
def peer():
    with running("strom") as started:
        yield started


@pytest.mark.parametrize("size", [100, 1024])
def test_records_have_the_size_asked_for_and_are_the_same_each_time(size):
    records = clicks(size, 50)
    assert {len(record) for record in records} == {size}
    assert len(set(records)) > 1
    assert records == clicks(size, 50)


@pytest.mark.parametrize("variant", [STROM_OS, STROM_DISK], ids=lambda one: one.key)
def test_what_is_produced_can_be_consumed(peer: Peer, variant):
    name = f"throughput-{variant.key}"
    with peer.topic(name, 3, variant.topic_settings) as topic, ResidentPeak(peer) as peak:
        servers = peer.bootstrap_servers
        produced = run(Produce(servers, topic, RECORDS, partitions=3, compression="lz4"))
        consumed = run(Consume(servers, topic, RECORDS, partitions=3))
    assert produced > 0
    assert consumed > 0
    assert peak.bytes > 1_000_000
    assert peer.cpu_seconds() > 0


def test_exactly_the_records_asked_for_are_produced(peer: Peer):
    with peer.topic("counted", 1, {}) as topic:
        run(Produce(peer.bootstrap_servers, topic, RECORDS))
        assert peer.end_offset(topic) == RECORDS


def test_single_requests_are_answered_on_every_connection(peer: Peer):
    with peer.topic("single", 2, {}) as topic:
        job = ProduceRequests(peer.bootstrap_servers, topic, 0.3, connections=4, partitions=2)
        latency = run(job)
        assert peer.end_offset(topic) > 1
    assert 0 < latency.p50_ms <= latency.p99_ms
    assert latency.requests_per_second > 0


def test_a_refused_request_is_not_taken_for_an_answer(peer: Peer):
    with pytest.raises(RuntimeError, match="failed with code 3"):
        run(ProduceRequests(peer.bootstrap_servers, "no-such-topic", 0.1))


def test_batches_can_be_fetched_from_random_offsets(peer: Peer):
    with peer.topic("random", 1, {}) as topic:
        run(Produce(peer.bootstrap_servers, topic, RECORDS, batch_records=100))
        latency = run(RandomFetches(peer.bootstrap_servers, topic, 0.2, RECORDS))
    assert latency.requests > 10


def test_a_run_goes_on_until_enough_requests_are_answered(peer: Peer):
    with peer.topic("brief", 1, {}) as topic:
        latency = run(ProduceRequests(peer.bootstrap_servers, topic, 0.0))
        assert peer.end_offset(topic) >= latency.requests >= 20


def test_a_fetch_without_records_is_not_taken_for_an_answer(peer: Peer):
    with peer.topic("short", 1, {}) as topic:
        run(Produce(peer.bootstrap_servers, topic, 1))
        with pytest.raises(RuntimeError, match="no records, code 1"):
            run(RandomFetches(peer.bootstrap_servers, topic, 0.1, RECORDS))
