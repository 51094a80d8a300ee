"""Metadata (3): the brokers, the topics, and who leads which partition."""

from strom.wire.kafka.fields import (
    INT32_MIN,
    array,
    boolean,
    int16,
    int32,
    int32_array,
    string,
    uuid,
)
from strom.wire.kafka.schema import Request, Response, Struct, Uuid


class MetadataRequestTopic(Struct):
    """A topic by name, or from version 12 on by id."""

    topic_id: Uuid = uuid("10+", ignorable=True)
    name: str | None = string(nullable="10+")


class MetadataRequest(Request, api_key=3, versions="0-13", flexible="9+"):
    """Describe these topics, or all."""

    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable="1+")
    """None for all topics; in version 0 an empty list means that."""
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")


class MetadataResponseBroker(Struct):
    """A broker and its address."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string("1+", nullable="0+", default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    """Who holds and who leads a partition."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32("7+", default=-1, ignorable=True)
    replica_nodes: list[int] = int32_array()
    isr_nodes: list[int] = int32_array()
    offline_replicas: list[int] = int32_array("5+", ignorable=True)


class MetadataResponseTopic(Struct):
    """A topic and its partitions."""

    error_code: int = int16()
    name: str | None = string(nullable="12+")
    topic_id: Uuid = uuid("10+", ignorable=True)
    is_internal: bool = boolean("1+", ignorable=True)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32("8+", default=INT32_MIN)
    """A bit per operation; the default says that nobody asked."""


class MetadataResponse(Response, api_key=3, versions="0-13", flexible="9+"):
    """The cluster as the broker sees it."""

    throttle_time_ms: int = int32("3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string("2+", nullable="0+", default=None, ignorable=True)
    controller_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32("8-10", default=INT32_MIN)
    error_code: int = int16("13+", ignorable=True)
