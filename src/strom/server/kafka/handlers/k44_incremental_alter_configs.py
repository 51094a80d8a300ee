"""IncrementalAlterConfigs, api key 44: set, delete, append to or subtract from single settings."""

from strom.broker.configs import ConfigChange, change_settings
from strom.model.errors import ApiError
from strom.server.kafka.context import Context
from strom.server.kafka.registry import Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k44_incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


@handler(
    IncrementalAlterConfigsRequest,
    Needs(Operation.ALTER_CONFIGS, Resource.TOPIC),
    Needs(Operation.ALTER_CONFIGS, Resource.CLUSTER),
)
async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, context: Context
) -> IncrementalAlterConfigsResponse:
    """Change one resource after the other."""
    return IncrementalAlterConfigsResponse(
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
    changes = [
        ConfigChange(config.name, config.config_operation, config.value)
        for config in resource.configs
    ]
    try:
        await change_settings(
            context.broker,
            resource.resource_type,
            resource.resource_name,
            changes,
            only_check=only_check,
        )
    except ApiError as error:
        answer.error_code = error.code
        answer.error_message = error.message
    return answer
