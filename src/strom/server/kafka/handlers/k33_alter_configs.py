"""AlterConfigs, api key 33: replace all configs of a topic or broker; deprecated."""

from strom.broker.configs import change_settings
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.server.kafka.config_changes import change_each
from strom.wire.kafka.messages.k33_alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)


@handler(
    AlterConfigsRequest,
    Needs(Operation.ALTER_CONFIGS, Resource.TOPIC),
    Needs(Operation.ALTER_CONFIGS, Resource.GROUP),
    Needs(Operation.ALTER_CONFIGS, Resource.CLUSTER),
)
async def alter_configs(request: AlterConfigsRequest, context: Context) -> AlterConfigsResponse:

    async def change(resource: AlterConfigsResource) -> None:
        await change_settings(
            context.broker,
            resource.resource_type,
            resource.resource_name,
            None,
            [(config.name, config.value) for config in resource.configs],
            only_check=request.validate_only,
        )

    pause = context.long_work.pauses()
    return AlterConfigsResponse(responses=await change_each(request.resources, change, pause))
