"""IncrementalAlterConfigs (44): change single settings and keep the others (KIP-339)."""

from strom.wire.kafka import fields
from strom.wire.kafka.messages.k33_alter_configs import AlterConfigsResourceResponse
from strom.wire.kafka.schema import Request, Response, Struct


class AlterableConfig(Struct):
    name: str = fields.string()
    config_operation: int = fields.int8()
    """0: set; 1: delete; 2: append to a list; 3: subtract from a list."""
    value: str | None = fields.string(nullable="0+")


class AlterConfigsResource(Struct):
    resource_type: int = fields.int8()
    """2: topic; 4: broker."""
    resource_name: str = fields.string()
    configs: list[AlterableConfig] = fields.array(AlterableConfig)


class IncrementalAlterConfigsRequest(Request, api_key=44, versions="0-1", flexible="1+"):
    resources: list[AlterConfigsResource] = fields.array(AlterConfigsResource)
    validate_only: bool = fields.boolean()


class IncrementalAlterConfigsResponse(Response, api_key=44, versions="0-1", flexible="1+"):
    throttle_time_ms: int = fields.int32()
    responses: list[AlterConfigsResourceResponse] = fields.array(AlterConfigsResourceResponse)
