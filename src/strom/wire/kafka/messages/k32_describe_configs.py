"""DescribeConfigs (32): the settings of topics and brokers."""

from strom.wire.kafka.fields import (
    array,
    boolean,
    int8,
    int16,
    int32,
    string,
    string_array,
)
from strom.wire.kafka.schema import Request, Response, Struct


class DescribeConfigsResource(Struct):
    resource_type: int = int8()
    """2: topic; 4: broker."""
    resource_name: str = string()
    configuration_keys: list[str] | None = string_array(nullable="0+")
    """None for all settings."""


class DescribeConfigsRequest(Request, api_key=32, versions="1-4", flexible="4+"):
    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean()
    include_documentation: bool = boolean("3+")


class DescribeConfigsSynonym(Struct):
    """Another source of the same setting, in order of precedence (KIP-226)."""

    name: str = string()
    value: str | None = string(nullable="0+")
    source: int = int8()


class DescribeConfigsResourceResult(Struct):
    """One setting with its value and the source of that value."""

    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    """1: topic; 2: this broker, dynamic; 3: all brokers, dynamic; 4: broker's file; 5: default."""
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym)
    config_type: int = int8("3+", ignorable=True)
    documentation: str | None = string("3+", nullable="0+", ignorable=True)


class DescribeConfigsResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


class DescribeConfigsResponse(Response, api_key=32, versions="1-4", flexible="4+"):
    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)
