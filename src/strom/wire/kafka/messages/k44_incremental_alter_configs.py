"""IncrementalAlterConfigs (44): change single settings and leave the others."""

from strom.wire.kafka.fields import (
    array,
    boolean,
    int8,
    int16,
    int32,
    string,
)
from strom.wire.kafka.schema import Request, Response, Struct


class AlterableConfig(Struct):
    """One change to one setting."""

    name: str = string()
    config_operation: int = int8()
    """0 set, 1 delete, 2 append to a list, 3 take out of a list."""
    value: str | None = string(nullable="0+")


class AlterConfigsResource(Struct):
    """The changes to one resource."""

    resource_type: int = int8()
    """2 a topic, 4 a broker."""
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


class IncrementalAlterConfigsRequest(Request, api_key=44, versions="0-1", flexible="1+"):
    """Change these settings."""

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


class AlterConfigsResourceResponse(Struct):
    """What became of one resource."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


class IncrementalAlterConfigsResponse(Response, api_key=44, versions="0-1", flexible="1+"):
    """What became of the resources."""

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
