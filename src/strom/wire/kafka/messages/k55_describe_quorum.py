"""DescribeQuorum (55): the voters of the metadata log and how far each has replicated it."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct, Uuid


class PartitionDataRequest(Struct):
    partition_index: int = fields.int32()


class TopicDataRequest(Struct):
    topic_name: str = fields.string()
    partitions: list[PartitionDataRequest] = fields.array(PartitionDataRequest)


class DescribeQuorumRequest(Request, api_key=55, versions="0-2", flexible="0+"):
    topics: list[TopicDataRequest] = fields.array(TopicDataRequest)


class ReplicaState(Struct):
    replica_id: int = fields.int32()
    replica_directory_id: Uuid = fields.uuid("2+")
    log_end_offset: int = fields.int64()
    last_fetch_timestamp: int = fields.int64("1+", default=-1, ignorable=True)
    """When a follower fetched last; -1 if unknown (KIP-836)."""
    last_caught_up_timestamp: int = fields.int64("1+", default=-1, ignorable=True)


class PartitionData(Struct):
    partition_index: int = fields.int32()
    error_code: int = fields.int16()
    error_message: str | None = fields.string("2+", nullable="2+", ignorable=True)
    leader_id: int = fields.int32()
    leader_epoch: int = fields.int32()
    high_watermark: int = fields.int64()
    current_voters: list[ReplicaState] = fields.array(ReplicaState)
    observers: list[ReplicaState] = fields.array(ReplicaState)


class TopicData(Struct):
    topic_name: str = fields.string()
    partitions: list[PartitionData] = fields.array(PartitionData)


class Listener(Struct):
    name: str = fields.string("2+")
    host: str = fields.string("2+")
    port: int = fields.uint16("2+")


class Node(Struct):
    node_id: int = fields.int32("2+")
    listeners: list[Listener] = fields.array(Listener, "2+")


class DescribeQuorumResponse(Response, api_key=55, versions="0-2", flexible="0+"):
    error_code: int = fields.int16()
    error_message: str | None = fields.string("2+", nullable="2+", ignorable=True)
    topics: list[TopicData] = fields.array(TopicData)
    nodes: list[Node] = fields.array(Node, "2+")
