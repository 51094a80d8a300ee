"""DescribeCluster (60): the brokers, without any topics."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class DescribeClusterRequest(Request, api_key=60, versions="0-2", flexible="0+"):
    include_cluster_authorized_operations: bool = fields.boolean()
    endpoint_type: int = fields.int8("1+", default=1)
    """1: brokers; 2: controllers."""
    include_fenced_brokers: bool = fields.boolean("2+")


class DescribeClusterBroker(Struct):
    broker_id: int = fields.int32()
    host: str = fields.string()
    port: int = fields.int32()
    rack: str | None = fields.string(nullable="0+", default=None)
    is_fenced: bool = fields.boolean("2+")


class DescribeClusterResponse(Response, api_key=60, versions="0-2", flexible="0+"):
    throttle_time_ms: int = fields.int32()
    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+", default=None)
    endpoint_type: int = fields.int8("1+", default=1)
    cluster_id: str = fields.string()
    controller_id: int = fields.int32(default=-1)
    brokers: list[DescribeClusterBroker] = fields.array(DescribeClusterBroker)
    cluster_authorized_operations: int = fields.int32(default=fields.INT32_MIN)
