"""DescribeConfigs, api key 32: the settings of topics, groups and brokers."""

from collections.abc import Hashable

from strom.broker.configs import (
    ConfigEntry,
    ResourceType,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from strom.model.errors import ApiError, ErrorCode
from strom.model.steps import Steps
from strom.model.topics import check_topic_name
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


@handler(
    DescribeConfigsRequest,
    Needs(Operation.DESCRIBE_CONFIGS, Resource.TOPIC),
    Needs(Operation.DESCRIBE_CONFIGS, Resource.GROUP),
    Needs(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER),
)
def describe_configs(
    request: DescribeConfigsRequest, context: Context
) -> Steps[DescribeConfigsResponse]:
    # Each only once: otherwise a small request could have a huge response.
    resources: dict[tuple[int, str], DescribeConfigsResource] = {}
    for each in request.resources:
        resources[each.resource_type, each.resource_name] = each
        yield None
    response = DescribeConfigsResponse()
    describe = EntryDescriptions(request)
    for resource in resources.values():
        response.results.append(_describe(resource, describe, context))
        yield None
    return response


class EntryDescriptions:
    """The settings in a response, shared by resources that have the same values.

    Groups and client metrics subscriptions need not exist: a request may name tens of thousands.
    """

    def __init__(self, request: DescribeConfigsRequest) -> None:
        self._request = request
        self._described: dict[Hashable, DescribeConfigsResourceResult] = {}

    def __call__(self, entry: ConfigEntry) -> DescribeConfigsResourceResult:
        key = (id(entry.definition), entry.read_only, *entry.synonyms)
        found = self._described.get(key)
        if found is None:
            found = self._described[key] = _entry(entry, self._request)
        return found


def _describe(
    resource: DescribeConfigsResource, describe: EntryDescriptions, context: Context
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        entries = _entries(resource, context)
    except ApiError as error:
        result.error_code = error.code
        result.error_message = error.message
        return result
    result.error_message = ""
    keys = resource.configuration_keys
    wanted = None if keys is None else frozenset(keys)
    result.configs = [
        describe(entry) for entry in entries if wanted is None or entry.definition.name in wanted
    ]
    return result


def _entries(resource: DescribeConfigsResource, context: Context) -> list[ConfigEntry]:
    if resource.resource_type == ResourceType.TOPIC:
        check_topic_name(resource.resource_name)
        return describe_topic(context.broker, resource.resource_name)
    if resource.resource_type == ResourceType.BROKER:
        return describe_broker(context.broker, resource.resource_name)
    if resource.resource_type == ResourceType.GROUP:
        return describe_group(context.broker, resource.resource_name)
    if resource.resource_type == ResourceType.CLIENT_METRICS:
        return describe_client_metrics(context.broker, resource.resource_name)
    raise ApiError(
        ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}"
    )


def _entry(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else []
    secret = entry.definition.is_secret
    return DescribeConfigsResourceResult(
        name=entry.definition.name,
        value=None if secret else entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=secret,
        synonyms=[
            DescribeConfigsSynonym(name=name, value=None if secret else value, source=source)
            for name, value, source in synonyms
        ],
        config_type=entry.definition.kind.value,
        documentation=entry.definition.doc if request.include_documentation else None,
    )
