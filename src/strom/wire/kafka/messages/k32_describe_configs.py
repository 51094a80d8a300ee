"""DescribeConfigs (32): the settings of topics and brokers."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class DescribeConfigsResource(Struct):
    resource_type: int = fields.int8()
    """2: topic; 4: broker."""
    resource_name: str = fields.string()
    configuration_keys: list[str] | None = fields.array(fields.STRING, nullable="0+")
    """None for all settings."""


class DescribeConfigsRequest(Request, api_key=32, versions="1-4", flexible="4+"):
    resources: list[DescribeConfigsResource] = fields.array(DescribeConfigsResource)
    include_synonyms: bool = fields.boolean()
    include_documentation: bool = fields.boolean("3+")


class DescribeConfigsSynonym(Struct):
    """Another source of the same setting, in order of precedence (KIP-226)."""

    name: str = fields.string()
    value: str | None = fields.string(nullable="0+")
    source: int = fields.int8()


class DescribeConfigsResourceResult(Struct):
    """One setting with its value and the source of that value."""

    name: str = fields.string()
    value: str | None = fields.string(nullable="0+")
    read_only: bool = fields.boolean()
    config_source: int = fields.int8(default=-1)
    """1: topic; 2: this broker, dynamic; 3: all brokers, dynamic; 4: broker's file; 5: default."""
    is_sensitive: bool = fields.boolean()
    synonyms: list[DescribeConfigsSynonym] = fields.array(DescribeConfigsSynonym)
    config_type: int = fields.int8("3+", ignorable=True)
    documentation: str | None = fields.string("3+", nullable="0+", ignorable=True)


class DescribeConfigsResult(Struct):
    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+")
    resource_type: int = fields.int8()
    resource_name: str = fields.string()
    configs: list[DescribeConfigsResourceResult] = fields.array(DescribeConfigsResourceResult)


class DescribeConfigsResponse(Response, api_key=32, versions="1-4", flexible="4+"):
    throttle_time_ms: int = fields.int32()
    results: list[DescribeConfigsResult] = fields.array(DescribeConfigsResult)
