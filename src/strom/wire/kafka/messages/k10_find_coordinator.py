"""FindCoordinator (10): the coordinator of a group or a transactional id."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class FindCoordinatorRequest(Request, api_key=10, versions="0-6", flexible="3+"):
    """The keys to look up; before version 4 a single one (KIP-699)."""

    key: str = fields.string("0-3")
    key_type: int = fields.int8("1+")
    """0: group; 1: transactional id; 2: share group."""
    coordinator_keys: list[str] = fields.array(fields.STRING, "4+")


class Coordinator(Struct):
    key: str = fields.string()
    node_id: int = fields.int32()
    host: str = fields.string()
    port: int = fields.int32()
    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+", ignorable=True)


class FindCoordinatorResponse(Response, api_key=10, versions="0-6", flexible="3+"):
    """The coordinators; before version 4 a single one, in the outer fields (KIP-699)."""

    throttle_time_ms: int = fields.int32("1+", ignorable=True)
    error_code: int = fields.int16("0-3")
    error_message: str | None = fields.string("1-3", nullable="0+", ignorable=True)
    node_id: int = fields.int32("0-3")
    host: str = fields.string("0-3")
    port: int = fields.int32("0-3")
    coordinators: list[Coordinator] = fields.array(Coordinator, "4+")
