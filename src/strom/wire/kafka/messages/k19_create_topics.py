"""CreateTopics (19)."""

from strom.wire.kafka.fields import (
    array,
    boolean,
    int8,
    int16,
    int32,
    int32_array,
    string,
    uuid,
)
from strom.wire.kafka.schema import Request, Response, Struct, Uuid


class CreatableReplicaAssignment(Struct):
    partition_index: int = int32()
    broker_ids: list[int] = int32_array()


class CreatableTopicConfig(Struct):
    name: str = string()
    value: str | None = string(nullable="0+")


class CreatableTopic(Struct):
    name: str = string()
    num_partitions: int = int32()
    """-1 for the broker's default (KIP-464), or if `assignments` are given."""
    replication_factor: int = int16()
    """-1 for the broker's default (KIP-464), or if `assignments` are given."""
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    """Empty: the broker assigns replicas."""
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig)


class CreateTopicsRequest(Request, api_key=19, versions="2-7", flexible="5+"):
    topics: list[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean()


class CreatableTopicConfigs(Struct):
    """A setting of the new topic (KIP-525)."""

    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    config_source: int = int8(default=-1, ignorable=True)
    """As in DescribeConfigs."""
    is_sensitive: bool = boolean()


class CreatableTopicResult(Struct):
    name: str = string()
    topic_id: Uuid = uuid("7+", ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    topic_config_error_code: int = int16("5+", ignorable=True, tag=0)
    """Why settings are missing from the response."""
    num_partitions: int = int32("5+", default=-1, ignorable=True)
    replication_factor: int = int16("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = array(
        CreatableTopicConfigs, "5+", nullable="0+", ignorable=True
    )


class CreateTopicsResponse(Response, api_key=19, versions="2-7", flexible="5+"):
    throttle_time_ms: int = int32()
    topics: list[CreatableTopicResult] = array(CreatableTopicResult)
