"""AlterConfigs (33): replace all settings of a topic or broker."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class AlterableConfig(Struct):
    name: str = fields.string()
    value: str | None = fields.string(nullable="0+")


class AlterConfigsResource(Struct):
    """All settings of a resource; those not listed fall back to their defaults."""

    resource_type: int = fields.int8()
    """2: topic; 4: broker."""
    resource_name: str = fields.string()
    configs: list[AlterableConfig] = fields.array(AlterableConfig)


class AlterConfigsRequest(Request, api_key=33, versions="0-2", flexible="2+"):
    resources: list[AlterConfigsResource] = fields.array(AlterConfigsResource)
    validate_only: bool = fields.boolean()


class AlterConfigsResourceResponse(Struct):
    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+")
    resource_type: int = fields.int8()
    resource_name: str = fields.string()


class AlterConfigsResponse(Response, api_key=33, versions="0-2", flexible="2+"):
    throttle_time_ms: int = fields.int32()
    responses: list[AlterConfigsResourceResponse] = fields.array(AlterConfigsResourceResponse)
