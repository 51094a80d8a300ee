"""CreateTopics (19)."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct, Uuid


class CreatableReplicaAssignment(Struct):
    partition_index: int = fields.int32()
    broker_ids: list[int] = fields.array(fields.INT32)


class CreatableTopicConfig(Struct):
    name: str = fields.string()
    value: str | None = fields.string(nullable="0+")


class CreatableTopic(Struct):
    name: str = fields.string()
    num_partitions: int = fields.int32()
    """-1 for the broker's default (KIP-464), or if `assignments` are given."""
    replication_factor: int = fields.int16()
    """-1 for the broker's default (KIP-464), or if `assignments` are given."""
    assignments: list[CreatableReplicaAssignment] = fields.array(CreatableReplicaAssignment)
    """Empty: the broker assigns replicas."""
    configs: list[CreatableTopicConfig] = fields.array(CreatableTopicConfig)


class CreateTopicsRequest(Request, api_key=19, versions="2-7", flexible="5+"):
    topics: list[CreatableTopic] = fields.array(CreatableTopic)
    timeout_ms: int = fields.int32(default=60000)
    validate_only: bool = fields.boolean()


class CreatableTopicConfigs(Struct):
    """A setting of the new topic (KIP-525)."""

    name: str = fields.string()
    value: str | None = fields.string(nullable="0+")
    read_only: bool = fields.boolean()
    config_source: int = fields.int8(default=-1, ignorable=True)
    """As in DescribeConfigs."""
    is_sensitive: bool = fields.boolean()


class CreatableTopicResult(Struct):
    name: str = fields.string()
    topic_id: Uuid = fields.uuid("7+", ignorable=True)
    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+")
    topic_config_error_code: int = fields.int16("5+", ignorable=True, tag=0)
    """Why settings are missing from the response."""
    num_partitions: int = fields.int32("5+", default=-1, ignorable=True)
    replication_factor: int = fields.int16("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = fields.array(
        CreatableTopicConfigs, "5+", nullable="0+", ignorable=True
    )


class CreateTopicsResponse(Response, api_key=19, versions="2-7", flexible="5+"):
    throttle_time_ms: int = fields.int32()
    topics: list[CreatableTopicResult] = fields.array(CreatableTopicResult)
