"""IncrementalAlterConfigs, api key 44: set, delete, append to or subtract from single settings."""

from strom.broker.configs import ConfigChange, change_settings
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.server.kafka.config_changes import change_each
from strom.wire.kafka.messages.k44_incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


@handler(
    IncrementalAlterConfigsRequest,
    Needs(Operation.ALTER_CONFIGS, Resource.TOPIC),
    Needs(Operation.ALTER_CONFIGS, Resource.GROUP),
    Needs(Operation.ALTER_CONFIGS, Resource.CLUSTER),
)
async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, context: Context
) -> IncrementalAlterConfigsResponse:

    async def change(resource: AlterConfigsResource) -> None:
        await change_settings(
            context.broker,
            resource.resource_type,
            resource.resource_name,
            [
                ConfigChange(config.name, config.config_operation, config.value)
                for config in resource.configs
            ],
            only_check=request.validate_only,
        )

    pause = context.long_work.pauses()
    return IncrementalAlterConfigsResponse(
        responses=await change_each(request.resources, change, pause)
    )
