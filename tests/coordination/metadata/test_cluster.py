import uuid

import pytest

from strom.coordination.metadata.cluster import PRODUCER_ID_BLOCK, ClusterMetadata
from strom.coordination.metadata.records import (
    BrokerConfigs,
    LeaderEpoch,
    ProducerIds,
    TopicDeleted,
    TopicMetadata,
    decode,
    encode,
)
from strom.model.errors import ApiError, CorruptData, ErrorCode
from strom.model.topic_settings import TopicSettings

DEFAULTS = TopicSettings()


def created(
    cluster: ClusterMetadata, name: str, partitions: int = 1, **configs: str
) -> TopicMetadata:
    topic = cluster.create_topic(
        name, topic_id=uuid.uuid4(), partitions=partitions, configs=configs, defaults=DEFAULTS
    )
    cluster.replay(topic)
    return topic


def code_of(call, *args, **more) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        call(*args, **more)
    return refused.value.code


def test_a_command_changes_nothing_until_its_record_is_replayed():
    cluster = ClusterMetadata()
    topic = cluster.create_topic(
        "clicks", topic_id=uuid.uuid4(), partitions=2, configs={}, defaults=DEFAULTS
    )
    assert cluster.find("clicks") is None
    cluster.replay(topic)
    assert cluster.find("clicks") == topic


def test_a_second_topic_of_the_same_name_is_refused():
    cluster = ClusterMetadata()
    created(cluster, "a.b")
    make = {"topic_id": uuid.uuid4(), "partitions": 1, "configs": {}, "defaults": DEFAULTS}
    assert code_of(cluster.create_topic, "a.b", **make) is ErrorCode.TOPIC_ALREADY_EXISTS
    assert code_of(cluster.create_topic, "a_b", **make) is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("partitions", "code"),
    [
        (0, ErrorCode.INVALID_PARTITIONS),
        (-1, ErrorCode.INVALID_PARTITIONS),
        (10_001, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_partition_counts_have_bounds(partitions, code):
    cluster = ClusterMetadata()
    make = {"topic_id": uuid.uuid4(), "configs": {}, "defaults": DEFAULTS}
    assert code_of(cluster.create_topic, "t", partitions=partitions, **make) is code


def test_partitions_only_grow():
    cluster = ClusterMetadata()
    created(cluster, "t", 2)
    assert code_of(cluster.add_partitions, "t", 2) is ErrorCode.INVALID_PARTITIONS
    assert code_of(cluster.add_partitions, "t", 1) is ErrorCode.INVALID_PARTITIONS
    cluster.replay(cluster.add_partitions("t", 5))
    assert cluster.topic("t").partitions == 5


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_topics_in_which_a_name_determines_the_place_do_not_grow(name):
    cluster = ClusterMetadata()
    created(cluster, name, 2)
    assert code_of(cluster.add_partitions, name, 3) is ErrorCode.INVALID_REQUEST


def test_deletion_is_decided_first_and_finished_later():
    cluster = ClusterMetadata()
    topic = created(cluster, "t")
    cluster.replay(cluster.delete_topic("t"))
    assert cluster.find("t") is None
    assert [left.id for left in cluster.unfinished_deletions()] == [topic.id]
    created(cluster, "t")  # the name is free at once
    cluster.replay(TopicDeleted(topic.id))
    assert cluster.unfinished_deletions() == []
    assert cluster.find("t") is not None


def test_a_wrong_config_is_refused_before_anything_is_written():
    cluster = ClusterMetadata()
    created(cluster, "t")
    wrong = {"retention.ms": "x"}
    assert code_of(cluster.set_topic_configs, "t", wrong, DEFAULTS) is ErrorCode.INVALID_CONFIG
    unknown = code_of(cluster.set_topic_configs, "u", {}, DEFAULTS)
    assert unknown is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_producer_ids_are_reserved_in_blocks():
    cluster = ClusterMetadata()
    cluster.replay(cluster.reserve_producer_ids())
    cluster.replay(cluster.reserve_producer_ids())
    assert cluster.next_producer_id == 2 * PRODUCER_ID_BLOCK


@pytest.mark.parametrize(
    "record",
    [
        TopicMetadata("clicks", uuid.uuid4(), 3, {"retention.ms": "5"}),
        TopicMetadata("clicks", uuid.uuid4(), 3, {}, deleting=True),
        TopicDeleted(uuid.uuid4()),
        BrokerConfigs(None, {"log.retention.ms": "1"}),
        BrokerConfigs(7, {}),
        ProducerIds(3000),
        LeaderEpoch(4),
    ],
)
def test_records_survive_the_log(record):
    assert decode(*encode(record)) == record


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"topic:nonsense", None),
        (b"topic:1", b"{"),
        (b"stranger", b"{}"),
        (b"\xff", b""),
    ],
)
def test_an_unreadable_record_is_called_corrupt(key, value):
    with pytest.raises(CorruptData):
        decode(key, value)


def test_records_of_the_same_topic_share_a_key_so_that_compaction_keeps_the_state():
    topic = TopicMetadata("clicks", uuid.uuid4(), 1)
    gone = TopicDeleted(topic.id)
    assert encode(topic)[0] == encode(gone)[0]
    assert encode(gone)[1] is None
