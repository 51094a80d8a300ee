"""AlterConfigs, api key 33: replace all settings of a topic or broker (the older call)."""

from strom.broker.configs import change_settings
from strom.model.errors import ApiError
from strom.server.kafka.context import Context
from strom.server.kafka.registry import Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k33_alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


@handler(
    AlterConfigsRequest,
    Needs(Operation.ALTER_CONFIGS, Resource.TOPIC),
    Needs(Operation.ALTER_CONFIGS, Resource.CLUSTER),
)
async def alter_configs(request: AlterConfigsRequest, context: Context) -> AlterConfigsResponse:
    """Change one resource after the other."""
    return AlterConfigsResponse(
        responses=[
            await _alter(resource, request.validate_only, context) for resource in request.resources
        ]
    )


async def _alter(
    resource: AlterConfigsResource, only_check: bool, context: Context
) -> AlterConfigsResourceResponse:
    answer = AlterConfigsResourceResponse(
        resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        await change_settings(
            context.broker,
            resource.resource_type,
            resource.resource_name,
            None,
            [(config.name, config.value) for config in resource.configs],
            only_check=only_check,
        )
    except ApiError as error:
        answer.error_code = error.code
        answer.error_message = error.message
    return answer
