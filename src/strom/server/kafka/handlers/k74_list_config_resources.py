"""ListConfigResources, api key 74: the names of what has settings.

Groups are listed if settings were changed for them, as in Kafka. Broker loggers are a known type, but
strom has none whose level could be changed.
"""

from strom.broker.broker import Broker
from strom.broker.configs import ResourceType
from strom.model.errors import ErrorCode
from strom.server.kafka.api import Context, Needs, Operation, Outcome, Resource, handler
from strom.wire.kafka.messages.k74_list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


@handler(ListConfigResourcesRequest, Needs(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER))
def list_config_resources(request: ListConfigResourcesRequest, context: Context) -> Outcome:
    if context.version == 0:
        wanted = {int(ResourceType.CLIENT_METRICS)}
    else:
        wanted = set(request.resource_types or ResourceType)
    if not wanted <= set(ResourceType):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in sorted(wanted)
            for name in _names(kind, context.broker)
        ]
    )


def _names(kind: int, broker: Broker) -> list[str]:
    match kind:
        case ResourceType.TOPIC:
            return [hosted.topic.name for hosted in broker.topics()]
        case ResourceType.BROKER:
            return [str(broker.settings.node_id)]
        case ResourceType.GROUP:
            return broker.metadata.groups_with_configs()
        case ResourceType.CLIENT_METRICS:
            return broker.metadata.client_metrics_subscriptions()
    return []
