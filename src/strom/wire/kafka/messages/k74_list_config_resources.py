"""ListConfigResources (74): the names of what has settings (KIP-1142).

Version 0 lists client metrics subscriptions only, and was called ListClientMetricsResources.
"""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class ListConfigResourcesRequest(Request, api_key=74, versions="0-1", flexible="0+"):
    resource_types: list[int] = fields.array(fields.INT8, "1+")
    """2: topics; 4: brokers; 8: broker loggers; 16: client metrics; 32: groups. Empty for all."""


class ConfigResource(Struct):
    resource_name: str = fields.string()
    resource_type: int = fields.int8("1+", default=16, ignorable=True)


class ListConfigResourcesResponse(Response, api_key=74, versions="0-1", flexible="0+"):
    throttle_time_ms: int = fields.int32()
    error_code: int = fields.int16()
    config_resources: list[ConfigResource] = fields.array(ConfigResource)
