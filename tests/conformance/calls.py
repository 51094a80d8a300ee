"""The requests most tests need, with the usual values filled in. Answers come back unabridged."""

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from tests.conformance.raw import RawClient

EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3
BROKER_RESOURCE, TOPIC_RESOURCE = 4, 2
NEWEST_FETCH_BY_NAME = 12
NEWEST_PRODUCE_BY_NAME = 12
_DEADLINE_S = 10


class Topic(NamedTuple):
    """A topic by name and by id: newer versions of some requests use the id."""

    name: str
    id: uuid.UUID | None


def create_topic(
    client: RawClient, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> Topic:
    """Create a topic and return when every partition has a leader."""
    wanted = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "assignments": (),
        "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
    }
    (created,) = client.call("create_topics", 7, topics=[wanted]).topics
    assert created.error_code == ErrorCode.none, created
    wait_for_partitions(client, name, partitions)
    return Topic(name, created.topic_id)


def wait_for_partitions(client: RawClient, name: str, partitions: int) -> Any:
    """Wait until this many partitions serve requests, and return the topic's metadata.

    Kafka describes a partition a little before it leads it, so only a request to it shows that.
    """
    deadline = time.monotonic() + _DEADLINE_S
    while not _all_serve(client, name, partitions):
        assert time.monotonic() < deadline, describe(client, name)
        time.sleep(0.01)
    return describe(client, name)


def _all_serve(client: RawClient, name: str, partitions: int) -> bool:
    wanted = [
        {"partition_index": index, "current_leader_epoch": -1, "timestamp": LATEST}
        for index in range(partitions)
    ]
    topics = [{"name": name, "partitions": wanted}]
    answer = client.call(
        "list_offsets", 10, replica_id=-1, isolation_level=0, topics=topics, timeout=10_000
    )
    described = len(describe(client, name).partitions) == partitions
    return described and all(
        one.error_code == ErrorCode.none for one in answer.topics[0].partitions
    )


def wait_until_gone(client: RawClient, name: str) -> None:
    """Wait until the broker no longer knows a topic."""
    deadline = time.monotonic() + _DEADLINE_S
    while describe(client, name).error_code != ErrorCode.unknown_topic_or_partition:
        assert time.monotonic() < deadline, f"{name} is still there"
        time.sleep(0.01)


def cluster(client: RawClient) -> Any:
    """What metadata says of the cluster, without any topic."""
    return client.call("metadata", 12, topics=(), **NO_AUTO_CREATION)


def describe(client: RawClient, name: str) -> Any:
    """A topic's metadata, without creating it."""
    wanted = [{"topic_id": None, "name": name}]
    answer = client.call("metadata", 12, topics=wanted, **NO_AUTO_CREATION)
    return answer.topics[0]


def produce(
    client: RawClient,
    topic: Topic,
    records: bytes | None,
    *,
    partition: int = 0,
    acks: int = -1,
    version: int = NEWEST_PRODUCE_BY_NAME,
) -> Any:
    """Send one batch to one partition, and return what is answered about that partition."""
    answer = client.call("produce", version, **produce_fields(topic, records, partition, acks))
    return answer.responses[0].partition_responses[0]


def produce_fields(
    topic: Topic, records: bytes | None, partition: int = 0, acks: int = -1
) -> dict[str, Any]:
    """The fields of a produce request, for all versions."""
    data = {"index": partition, "records": records}
    topic_data = {"name": topic.name, "topic_id": topic.id, "partition_data": [data]}
    return {"transactional_id": None, "acks": acks, "timeout": 10_000, "topic_data": [topic_data]}


def fetch(client: RawClient, topic: Topic, offset: int = 0, **options: Any) -> Any:
    """Fetch from one partition, and return what is answered about that partition."""
    version = options.pop("version", NEWEST_FETCH_BY_NAME)
    answer = client.call("fetch", version, **fetch_fields(topic, offset, **options))
    return answer.responses[0].partitions[0]


def fetch_fields(
    topic: Topic,
    offset: int = 0,
    *,
    partition: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 0,
    max_bytes: int = 1 << 26,
    partition_max_bytes: int = 1 << 20,
    isolation_level: int = 0,
    leader_epoch: int = -1,
    session_id: int = 0,
    session_epoch: int = -1,
) -> dict[str, Any]:
    """The fields of a fetch request for one partition, for all versions."""
    wanted = {
        "partition": partition,
        "current_leader_epoch": leader_epoch,
        "fetch_offset": offset,
        "log_start_offset": -1,
        "partition_max_bytes": partition_max_bytes,
    }
    return {
        "replica_id": -1,
        "max_wait": max_wait_ms,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "isolation_level": isolation_level,
        "session_id": session_id,
        "session_epoch": session_epoch,
        "topics": [{"topic": topic.name, "topic_id": topic.id, "partitions": [wanted]}],
        "forgotten_topics_data": (),
    }


def list_offset(
    client: RawClient,
    topic: Topic,
    timestamp: int,
    *,
    partition: int = 0,
    leader_epoch: int = -1,
    version: int = 11,
) -> Any:
    """Ask where a timestamp (or EARLIEST, LATEST, MAX_TIMESTAMP) lies in one partition."""
    wanted = {
        "partition_index": partition,
        "current_leader_epoch": leader_epoch,
        "timestamp": timestamp,
    }
    answer = client.call(
        "list_offsets",
        version,
        replica_id=-1,
        isolation_level=0,
        topics=[{"name": topic.name, "partitions": [wanted]}],
        timeout=10_000,
    )
    return answer.topics[0].partitions[0]


def end_offset(client: RawClient, topic: Topic, partition: int = 0) -> int:
    """The offset the next record will get."""
    offset: int = list_offset(client, topic, LATEST, partition=partition).offset
    return offset


def new_producer_id(client: RawClient) -> int:
    """A producer id as an idempotent producer gets it; its epoch is 0."""
    fields = {"transactional_id": None, "transaction_timeout": 60_000}
    answer = retry(
        lambda: client.call("init_producer_id", 4, **fields),
        while_code=ErrorCode.coordinator_load_in_progress,
    )
    assert (answer.error_code, answer.producer_epoch) == (ErrorCode.none, 0)
    producer_id: int = answer.producer_id
    return producer_id


def retry(ask: Callable[[], Any], *, while_code: ErrorCode) -> Any:
    """Ask again while the broker says that it is not ready, as every client would."""
    deadline = time.monotonic() + _DEADLINE_S
    while (answer := ask()).error_code == while_code and time.monotonic() < deadline:
        time.sleep(0.05)
    return answer


NO_AUTO_CREATION = {
    "allow_auto_topic_creation": False,
    "include_cluster_authorized_operations": False,
    "include_topic_authorized_operations": False,
}
