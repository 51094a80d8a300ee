"""CreateTopics, api key 19.

Behaviour: every topic has its own result; duplicates are rejected. The response comes when the topic
can be written. Every partition has one replica here. Versions: 4 default counts (-1), 5 the settings in
the response, 7 topic ids.
"""

from collections import Counter

from strom.broker import configs
from strom.broker.broker import Broker
from strom.model.errors import ApiError, ErrorCode
from strom.model.topics import reject_name_of_queues
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

DEFAULT = -1


@handler(
    CreateTopicsRequest,
    Needs(Operation.CREATE, Resource.CLUSTER),
    Needs(Operation.CREATE, Resource.TOPIC),
)
async def create_topics(request: CreateTopicsRequest, context: Context) -> CreateTopicsResponse:
    pause = context.long_work.pauses()
    times: Counter[str] = Counter()
    for topic in request.topics:
        await pause()
        times[topic.name] += 1
    response = CreateTopicsResponse()
    describe = ConfigDescriptions(context.broker)
    for topic in request.topics:
        await pause()
        if times[topic.name] == 1:
            response.topics.append(await _create(topic, request.validate_only, describe, context))
    for name, count in times.items():
        await pause()
        if count > 1:
            response.topics.append(
                CreatableTopicResult(
                    name=name,
                    error_code=ErrorCode.INVALID_REQUEST,
                    error_message="Duplicate topic name.",
                    configs=None,
                )
            )
    return response


class ConfigDescriptions:
    """The configs of created topics, shared by those with the same: a request may create thousands."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._described: dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]] = {}

    def __call__(self, own: dict[str, str]) -> list[CreatableTopicConfigs]:
        """All settings of a topic with these configs."""
        key = frozenset(own.items())
        if key not in self._described:
            self._described[key] = [
                CreatableTopicConfigs(
                    name=entry.definition.name,
                    value=entry.value,
                    read_only=entry.read_only,
                    config_source=entry.source,
                )
                for entry in configs.describe_configs_of(self._broker, own)
            ]
        return self._described[key]


async def _create(
    topic: CreatableTopic, only_check: bool, describe: ConfigDescriptions, context: Context
) -> CreatableTopicResult:
    broker = context.broker
    try:
        own = _own_configs(topic)
        reject_name_of_queues(topic.name)
        hosted = await broker.create_topic(
            topic.name, _partition_count(topic, context), own, only_check=only_check
        )
    except ApiError as error:
        return CreatableTopicResult(
            name=topic.name,
            error_code=error.code,
            error_message=error.message,
            configs=None,
        )
    return CreatableTopicResult(
        name=topic.name,
        topic_id=bytes(16) if only_check else hosted.topic.id.bytes,
        error_message=None,
        num_partitions=hosted.topic.partitions,
        replication_factor=1,
        configs=describe(own),
    )


def _own_configs(topic: CreatableTopic) -> dict[str, str]:
    """The configs of the topic; of two values for one setting the last wins."""
    own = {}
    for config in topic.configs:
        if config.value is None:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"Null value not supported for topic configs: {config.name}",
            )
        own[config.name] = config.value
    return own


def _partition_count(topic: CreatableTopic, context: Context) -> int:
    if topic.assignments:
        return _count_assigned(topic, context.services.endpoint.node_id)
    if topic.replication_factor not in (DEFAULT, 1):
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, _replication_problem(topic))
    if topic.num_partitions == DEFAULT:
        return context.broker.settings.num_partitions
    return topic.num_partitions


def _replication_problem(topic: CreatableTopic) -> str:
    if topic.replication_factor < 1:
        return "Replication factor must be larger than 0, or -1 to use the default value."
    return (
        f"Unable to replicate the partition {topic.replication_factor} time(s): "
        "only 1 broker(s) are registered."
    )


def _count_assigned(topic: CreatableTopic, node: int) -> int:
    if topic.num_partitions != DEFAULT or topic.replication_factor != DEFAULT:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was given, but the partition count or the replication "
            "factor was not -1.",
        )
    indexes = sorted(assigned.partition_index for assigned in topic.assignments)
    if indexes != list(range(len(indexes))):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Partitions should be a consecutive 0-based integer sequence.",
        )
    for assigned in topic.assignments:
        if assigned.broker_ids != [node]:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment names brokers {assigned.broker_ids}, but only "
                f"broker {node} is registered.",
            )
    return len(indexes)
