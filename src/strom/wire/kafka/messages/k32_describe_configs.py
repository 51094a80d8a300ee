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
    """What to describe, and which settings of it."""

    resource_type: int = int8()
    """2 a topic, 4 a broker."""
    resource_name: str = string()
    configuration_keys: list[str] | None = string_array(nullable="0+")
    """None for all settings."""


class DescribeConfigsRequest(Request, api_key=32, versions="1-4", flexible="4+"):
    """Describe the settings of these resources."""

    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean()
    include_documentation: bool = boolean("3+")


class DescribeConfigsSynonym(Struct):
    """A place where the setting could also be set, in the order in which they count."""

    name: str = string()
    value: str | None = string(nullable="0+")
    source: int = int8()


class DescribeConfigsResourceResult(Struct):
    """One setting, its value and where that comes from."""

    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    """1 topic, 2 one broker, 3 all brokers, 4 start-up file, 5 default."""
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym)
    config_type: int = int8("3+", ignorable=True)
    documentation: str | None = string("3+", nullable="0+", ignorable=True)


class DescribeConfigsResult(Struct):
    """The settings of one resource."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


class DescribeConfigsResponse(Response, api_key=32, versions="1-4", flexible="4+"):
    """The settings."""

    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)
