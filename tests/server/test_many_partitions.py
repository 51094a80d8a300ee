"""Many topics and partitions: all are created, described, written, read, and there after a restart."""

import psutil
import pytest
from kio.schema.errors import ErrorCode

from strom.testing import BrokerProcess
from tests.conformance.batches import batch, read_values
from tests.conformance.calls import NO_AUTO_CREATION, Topic, fetch, produce
from tests.conformance.raw import RawClient

MIB = 2**20
TOPICS_A_REQUEST = 100
PATIENCE_S = 600
BYTES_A_PARTITION = 16 * 1024
"""More memory than a partition takes, with its share of the responses that name all of them."""
BYTES_OF_A_BROKER = 100 * MIB


def create(client: RawClient, topics: int, partitions: int) -> None:
    for first in range(0, topics, TOPICS_A_REQUEST):
        wanted = [
            {
                "name": f"topic-{number}",
                "num_partitions": partitions,
                "replication_factor": 1,
                "assignments": (),
                "configs": (),
            }
            for number in range(first, min(topics, first + TOPICS_A_REQUEST))
        ]
        answer = client.call("create_topics", 7, topics=wanted, timeout=PATIENCE_S * 1000)
        assert {one.error_code for one in answer.topics} == {ErrorCode.none}


def assert_described(client: RawClient, topics: int, partitions: int) -> None:
    answer = client.call("metadata", 12, topics=None, **NO_AUTO_CREATION)
    found = {one.name: one.partitions for one in answer.topics}
    assert found.keys() == {f"topic-{number}" for number in range(topics)}
    assert {len(one) for one in found.values()} == {partitions}
    assert {each.error_code for one in found.values() for each in one} == {ErrorCode.none}


def some(topics: int, partitions: int) -> list[tuple[Topic, int]]:
    """The first and the last partition of topics from all over the range."""
    names = [Topic(f"topic-{number}", None) for number in range(0, topics, max(1, topics // 50))]
    return [(name, index) for name in names for index in {0, partitions // 2, partitions - 1}]


def assert_written(
    client: RawClient, places: list[tuple[Topic, int]], expected: list[bytes]
) -> None:
    for topic, partition in places:
        answer = fetch(client, topic, partition=partition)
        assert (answer.error_code, read_values(answer.records)) == (ErrorCode.none, expected)


def assert_small(server: BrokerProcess, partitions: int) -> None:
    used = psutil.Process(server.pid).memory_info().rss
    limit = BYTES_OF_A_BROKER + partitions * BYTES_A_PARTITION
    print(
        f"{partitions} partitions: {used // MIB} MiB, {(limit - used) // MIB} MiB below the limit"
    )
    assert used < limit


@pytest.mark.soak
@pytest.mark.parametrize(("topics", "partitions"), [(1000, 4), (1, 10_000), (10_000, 1)])
def test_many_partitions_are_served_and_kept(topics, partitions):
    places = some(topics, partitions)
    with BrokerProcess() as server:
        with RawClient(server.bootstrap_servers, timeout_s=PATIENCE_S) as client:
            create(client, topics, partitions)
            assert_described(client, topics, partitions)
            for topic, partition in places:
                written = produce(client, topic, batch(b"a"), partition=partition)
                assert written.error_code == ErrorCode.none
            assert_written(client, places, [b"a"])
            assert_small(server, topics * partitions)
        for end in (server.terminate, server.kill):
            end()
            server.start()
            with RawClient(server.bootstrap_servers, timeout_s=PATIENCE_S) as client:
                assert_described(client, topics, partitions)
                assert_written(client, places, [b"a"])
                assert_small(server, topics * partitions)
        with RawClient(server.bootstrap_servers, timeout_s=PATIENCE_S) as client:
            for topic, partition in places:
                produce(client, topic, batch(b"b"), partition=partition)
            assert_written(client, places, [b"a", b"b"])
        assert "Traceback" not in server.words()
