"""Metadata (3): brokers, topics, and the leader of each partition."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct, Uuid


class MetadataRequestTopic(Struct):
    """A topic by name, or by id since version 12 (KIP-516)."""

    topic_id: Uuid = fields.uuid("10+", ignorable=True)
    name: str | None = fields.string(nullable="10+")


class MetadataRequest(Request, api_key=3, versions="0-13", flexible="9+"):
    topics: list[MetadataRequestTopic] | None = fields.array(MetadataRequestTopic, nullable="1+")
    """None for all topics; version 0 has an empty list for that."""
    allow_auto_topic_creation: bool = fields.boolean("4+", default=True)
    include_cluster_authorized_operations: bool = fields.boolean("8-10")
    include_topic_authorized_operations: bool = fields.boolean("8+")


class MetadataResponseBroker(Struct):
    node_id: int = fields.int32()
    host: str = fields.string()
    port: int = fields.int32()
    rack: str | None = fields.string("1+", nullable="0+", default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    error_code: int = fields.int16()
    partition_index: int = fields.int32()
    leader_id: int = fields.int32()
    leader_epoch: int = fields.int32("7+", default=-1, ignorable=True)
    replica_nodes: list[int] = fields.array(fields.INT32)
    isr_nodes: list[int] = fields.array(fields.INT32)
    offline_replicas: list[int] = fields.array(fields.INT32, "5+", ignorable=True)


class MetadataResponseTopic(Struct):
    error_code: int = fields.int16()
    name: str | None = fields.string(nullable="12+")
    topic_id: Uuid = fields.uuid("10+", ignorable=True)
    is_internal: bool = fields.boolean("1+", ignorable=True)
    partitions: list[MetadataResponsePartition] = fields.array(MetadataResponsePartition)
    topic_authorized_operations: int = fields.int32("8+", default=fields.INT32_MIN)
    """A bit per operation; the default means that the request did not ask for them (KIP-430)."""


class MetadataResponse(Response, api_key=3, versions="0-13", flexible="9+"):
    throttle_time_ms: int = fields.int32("3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = fields.array(MetadataResponseBroker)
    cluster_id: str | None = fields.string("2+", nullable="0+", default=None, ignorable=True)
    controller_id: int = fields.int32("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = fields.array(MetadataResponseTopic)
    cluster_authorized_operations: int = fields.int32("8-10", default=fields.INT32_MIN)
    error_code: int = fields.int16("13+", ignorable=True)
