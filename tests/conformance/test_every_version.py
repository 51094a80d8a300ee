"""Every version that Kafka 4.3.1 offers of every request gets a call that succeeds."""

from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance import calls
from tests.conformance.batches import batch, read_values
from tests.conformance.calls import Topic
from tests.conformance.offered import versions_of
from tests.conformance.raw import RawClient

TIMEOUT_MS = 10_000
OK = ErrorCode.none
MakeTopic = Callable[..., Topic]


def versions(api: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("version", versions_of(api))


@versions("api_versions")
def test_api_versions(client: RawClient, version: int) -> None:
    answer = client.call(
        "api_versions", version, client_software_name="x", client_software_version="1"
    )
    assert answer.error_code == OK
    assert answer.api_keys


@versions("metadata")
def test_metadata(client: RawClient, make_topic: MakeTopic, version: int) -> None:
    topic = make_topic(2)
    wanted = [{"name": topic.name, "topic_id": None}]
    answer = client.call("metadata", version, topics=wanted, **calls.NO_AUTO_CREATION)
    (broker,) = answer.brokers
    assert (broker.host, broker.port) == client.socket.getpeername()
    (described,) = answer.topics
    assert (described.error_code, described.name) == (OK, topic.name)
    assert sorted(one.partition_index for one in described.partitions) == [0, 1]
    for partition in described.partitions:
        assert (partition.error_code, partition.leader_id) == (OK, broker.node_id)
        assert partition.replica_nodes == partition.isr_nodes == (broker.node_id,)
    if version >= 2:
        assert answer.cluster_id
    if version >= 7:
        assert [one.leader_epoch for one in described.partitions] == [0, 0]
    if version >= 10:
        assert described.topic_id == topic.id


@versions("produce")
def test_produce(client: RawClient, make_topic: MakeTopic, version: int) -> None:
    topic = make_topic()
    assert calls.produce(client, topic, batch(b"a", b"b")).error_code == OK
    answer = calls.produce(client, topic, batch(b"c"), version=version)
    assert (answer.error_code, answer.base_offset, answer.log_append_time) == (OK, 2, None)
    if version >= 5:
        assert answer.log_start_offset == 0
    assert calls.end_offset(client, topic) == 3


@versions("fetch")
def test_fetch(client: RawClient, make_topic: MakeTopic, version: int) -> None:
    topic = make_topic()
    calls.produce(client, topic, batch(b"a"))
    calls.produce(client, topic, batch(b"b"))
    answer = calls.fetch(client, topic, 1, version=version)
    assert (answer.error_code, answer.high_watermark, answer.last_stable_offset) == (OK, 2, 2)
    assert read_values(answer.records) == [b"b"]


@versions("list_offsets")
def test_list_offsets(client: RawClient, make_topic: MakeTopic, version: int) -> None:
    topic = make_topic()
    calls.produce(client, topic, batch(b"a", b"b"))
    answer = calls.list_offset(client, topic, calls.LATEST, version=version)
    assert (answer.error_code, answer.offset, answer.timestamp) == (OK, 2, -1)
    if version >= 4:
        assert answer.leader_epoch == 0


@versions("create_topics")
def test_create_topics(client: RawClient, topic: str, version: int) -> None:
    setting = {"name": "retention.ms", "value": "5000"}
    wanted = {"name": topic, "num_partitions": 3, "replication_factor": 1}
    wanted |= {"assignments": (), "configs": [setting]}
    (answer,) = client.call("create_topics", version, topics=[wanted]).topics
    assert (answer.error_code, answer.name) == (OK, topic)
    if version >= 5:
        assert (answer.num_partitions, answer.replication_factor) == (3, 1)
        values = {one.name: (one.value, one.config_source) for one in answer.configs}
        assert values["retention.ms"] == ("5000", 1)
        assert values["segment.bytes"] == ("1073741824", 5)
    found = calls.wait_for_partitions(client, topic, 3)
    if version >= 7:
        assert answer.topic_id == found.topic_id


@versions("delete_topics")
def test_delete_topics(client: RawClient, make_topic: MakeTopic, version: int) -> None:
    topic = make_topic()
    by_state = [{"name": topic.name, "topic_id": None}]
    (answer,) = client.call(
        "delete_topics", version, topics=by_state, topic_names=[topic.name], timeout=TIMEOUT_MS
    ).responses
    assert (answer.error_code, answer.name) == (OK, topic.name)
    calls.wait_until_gone(client, topic.name)


@versions("create_partitions")
def test_create_partitions(client: RawClient, make_topic: MakeTopic, version: int) -> None:
    topic = make_topic()
    wanted = [{"name": topic.name, "count": 3, "assignments": None}]
    (answer,) = client.call(
        "create_partitions", version, topics=wanted, timeout=TIMEOUT_MS, validate_only=False
    ).results
    assert (answer.error_code, answer.name) == (OK, topic.name)
    calls.wait_for_partitions(client, topic.name, 3)


@versions("delete_records")
def test_delete_records(client: RawClient, make_topic: MakeTopic, version: int) -> None:
    topic = make_topic()
    calls.produce(client, topic, batch(b"a", b"b", b"c"))
    wanted = {"name": topic.name, "partitions": [{"partition_index": 0, "offset": 2}]}
    answer = client.call("delete_records", version, topics=[wanted], timeout=TIMEOUT_MS)
    (partition,) = answer.topics[0].partitions
    assert (partition.error_code, partition.low_watermark) == (OK, 2)


@versions("describe_configs")
def test_describe_configs(client: RawClient, make_topic: MakeTopic, version: int) -> None:
    topic = make_topic(configs={"retention.ms": "7000"})
    wanted = {"resource_type": calls.TOPIC_RESOURCE, "resource_name": topic.name}
    wanted |= {"configuration_keys": ["retention.ms"]}
    (answer,) = client.call("describe_configs", version, resources=[wanted]).results
    assert (answer.error_code, answer.resource_type, answer.resource_name) == (OK, 2, topic.name)
    (setting,) = answer.configs
    assert (setting.name, setting.value, setting.read_only) == ("retention.ms", "7000", False)
    assert (setting.config_source, setting.is_sensitive) == (1, False)


@versions("alter_configs")
def test_alter_configs(client: RawClient, make_topic: MakeTopic, version: int) -> None:
    topic = make_topic()
    answer = client.call(
        "alter_configs",
        version,
        resources=[_topic_change(topic, {"name": "retention.ms", "value": "7000"})],
        validate_only=False,
    )
    assert [one.error_code for one in answer.responses] == [OK]


@versions("incremental_alter_configs")
def test_incremental_alter_configs(client: RawClient, make_topic: MakeTopic, version: int) -> None:
    topic = make_topic()
    change = {"name": "retention.ms", "config_operation": 0, "value": "7000"}
    answer = client.call(
        "incremental_alter_configs",
        version,
        resources=[_topic_change(topic, change)],
        validate_only=False,
    )
    assert [one.error_code for one in answer.responses] == [OK]


@versions("describe_cluster")
def test_describe_cluster(client: RawClient, version: int) -> None:
    answer = client.call(
        "describe_cluster",
        version,
        include_cluster_authorized_operations=False,
        include_fenced_brokers=False,
    )
    (broker,) = answer.brokers
    assert (answer.error_code, broker.host, broker.port) == (OK, *client.socket.getpeername())
    assert answer.controller_id == broker.broker_id


@versions("describe_topic_partitions")
def test_describe_topic_partitions(client: RawClient, make_topic: MakeTopic, version: int) -> None:
    topic = make_topic(2)
    wanted = [{"name": topic.name}]
    answer = client.call("describe_topic_partitions", version, topics=wanted)
    (described,) = answer.topics
    assert (described.error_code, described.topic_id) == (OK, topic.id)
    assert [one.partition_index for one in described.partitions] == [0, 1]


@versions("describe_log_dirs")
def test_describe_log_dirs(client: RawClient, make_topic: MakeTopic, version: int) -> None:
    topic = make_topic()
    calls.produce(client, topic, batch(b"a"))
    wanted = [{"topic": topic.name, "partitions": [0]}]
    (folder,) = client.call("describe_log_dirs", version, topics=wanted).results
    assert folder.error_code == OK
    (partition,) = folder.topics[0].partitions
    assert (partition.partition_index, partition.partition_size) == (0, len(batch(b"a")))
    if version >= 4:
        assert 0 < folder.usable_bytes <= folder.total_bytes


@versions("offset_for_leader_epoch")
def test_offset_for_leader_epoch(client: RawClient, make_topic: MakeTopic, version: int) -> None:
    topic = make_topic()
    calls.produce(client, topic, batch(b"a", b"b"))
    partition = {"partition": 0, "leader_epoch": 0, "current_leader_epoch": -1}
    wanted = [{"topic": topic.name, "partitions": [partition]}]
    answer = client.call("offset_for_leader_epoch", version, replica_id=-1, topics=wanted)
    (found,) = answer.topics[0].partitions
    assert (found.error_code, found.leader_epoch, found.end_offset) == (OK, 0, 2)


@versions("find_coordinator")
def test_find_coordinator(client: RawClient, version: int) -> None:
    def ask() -> Any:
        answer = client.call(
            "find_coordinator", version, key="a-group", key_type=0, coordinator_keys=["a-group"]
        )
        return answer.coordinators[0] if version >= 4 else answer

    # Kafka says "not available" for as long as it creates its internal topic.
    found = calls.retry(ask, while_code=ErrorCode.coordinator_not_available)
    assert (found.error_code, found.host, found.port) == (OK, *client.socket.getpeername())


@versions("init_producer_id")
def test_init_producer_id(client: RawClient, version: int) -> None:
    def ask() -> Any:
        return client.call(
            "init_producer_id", version, transactional_id=None, transaction_timeout=TIMEOUT_MS
        )

    answer = calls.retry(ask, while_code=ErrorCode.coordinator_load_in_progress)
    assert (answer.error_code, answer.producer_epoch) == (OK, 0)
    assert answer.producer_id >= 0


def _topic_change(topic: Topic, change: dict[str, Any]) -> dict[str, Any]:
    return {
        "resource_type": calls.TOPIC_RESOURCE,
        "resource_name": topic.name,
        "configs": [change],
    }
