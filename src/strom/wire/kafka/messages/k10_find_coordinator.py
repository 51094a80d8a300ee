"""FindCoordinator (10): the coordinator of a group or a transactional id."""

from strom.wire.kafka.fields import (
    array,
    int8,
    int16,
    int32,
    string,
    string_array,
)
from strom.wire.kafka.schema import Request, Response, Struct


class FindCoordinatorRequest(Request, api_key=10, versions="0-6", flexible="3+"):
    """The keys to look up; before version 4 a single one (KIP-699)."""

    key: str = string("0-3")
    key_type: int = int8("1+")
    """0: group; 1: transactional id; 2: share group."""
    coordinator_keys: list[str] = string_array("4+")


class Coordinator(Struct):
    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", ignorable=True)


class FindCoordinatorResponse(Response, api_key=10, versions="0-6", flexible="3+"):
    """The coordinators; before version 4 a single one, in the outer fields (KIP-699)."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="0+", ignorable=True)
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")
