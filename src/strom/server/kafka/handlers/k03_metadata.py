"""Metadata, api key 3: topics, and the leaders of their partitions.

Behaviour: a topic that does not exist is created if both the client and `auto.create.topics.enable`
allow it, and is ready in the same response. Versions: 0 an empty list means all topics, 1+ null does;
10 topic ids, 12 topics by id.
"""

from collections.abc import Iterable

from strom.broker.partition import HostedTopic, Partition
from strom.model.errors import ApiError, ErrorCode
from strom.model.steps import Steps
from strom.model.topics import check_topic_name, is_internal, is_reserved_for_queues
from strom.server.kafka.api import (
    CLUSTER_OPERATIONS,
    TOPIC_OPERATIONS,
    Context,
    Needs,
    Operation,
    Outcome,
    Resource,
    handler,
)
from strom.wire.kafka.messages.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from strom.wire.kafka.schema import NO_UUID

FIRST_VERSION_BY_ID = 12
PARTITIONS_PER_STEP = 500


@handler(
    MetadataRequest,
    Needs(Operation.DESCRIBE, Resource.TOPIC),
    Needs(Operation.CREATE, Resource.TOPIC),
)
def metadata(request: MetadataRequest, context: Context) -> Outcome:
    """Respond at once, unless a topic must be created first."""
    if context.version < FIRST_VERSION_BY_ID and any(map(_is_by_id, request.topics or ())):
        return _refuse(request)
    missing = _to_create(request, context)
    if missing:
        return _create_and_answer(missing, request, context)
    return _respond(request, context, {})


def _is_by_id(topic: MetadataRequestTopic) -> bool:
    return topic.name is None or topic.topic_id != NO_UUID


def _refuse(request: MetadataRequest) -> Steps[MetadataResponse]:
    """Some versions have ids in responses, but not in requests; their responses must have names."""
    response = MetadataResponse()
    for topic in request.topics or ():
        response.topics.append(
            MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "")
        )
        yield None
    return response


def _to_create(request: MetadataRequest, context: Context) -> list[str]:
    broker = context.broker
    if not (request.allow_auto_topic_creation and broker.settings.auto_create_topics):
        return []
    return [
        topic.name
        for topic in request.topics or []
        if topic.name and broker.find_topic(topic.name) is None and _is_legal(topic.name)
    ]


def _is_legal(name: str) -> bool:
    try:
        check_topic_name(name)
    except ApiError:
        return False
    return not is_internal(name) and not is_reserved_for_queues(name)


async def _create_and_answer(
    names: list[str], request: MetadataRequest, context: Context
) -> MetadataResponse:
    broker = context.broker
    failed: dict[str, ErrorCode] = {}
    pause = context.long_work.pauses()
    for name in names:
        await pause()
        try:
            await broker.create_topic(name, broker.settings.num_partitions, {})
        except ApiError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:  # another client was faster
                failed[name] = error.code
    return await context.long_work.run(_respond(request, context, failed))


def _respond(
    request: MetadataRequest, context: Context, failed: dict[str, ErrorCode]
) -> Steps[MetadataResponse]:
    endpoint = context.services.endpoint
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port)
        ],
        cluster_id=context.broker.directory.cluster_id,
        controller_id=endpoint.node_id,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    everything = request.topics is None or (context.version == 0 and not request.topics)
    wanted: Iterable[HostedTopic | MetadataRequestTopic]
    if everything:
        wanted = context.broker.topics()
    else:
        wanted = {(topic.name, topic.topic_id): topic for topic in request.topics or []}.values()
    for topic in wanted:
        try:
            hosted = topic if isinstance(topic, HostedTopic) else _find(topic, context, failed)
        except ApiError as error:
            assert isinstance(topic, MetadataRequestTopic)  # noqa: S101 - the other is found
            response.topics.append(
                MetadataResponseTopic(
                    error_code=error.code, name=topic.name, topic_id=topic.topic_id
                )
            )
            yield None
            continue
        answer = _topic(hosted, request)
        response.topics.append(answer)
        for first in range(0, len(hosted.partitions), PARTITIONS_PER_STEP):
            some = hosted.partitions[first : first + PARTITIONS_PER_STEP]
            answer.partitions += _partitions(some, first, endpoint.node_id)
            yield None
    return response


def _find(
    wanted: MetadataRequestTopic, context: Context, failed: dict[str, ErrorCode]
) -> HostedTopic:
    if wanted.topic_id != NO_UUID:
        return context.broker.topic_by_id(wanted.topic_id)
    name = wanted.name or ""
    check_topic_name(name)
    if name in failed:
        raise ApiError(failed[name])
    return context.broker.topic(name)


def _topic(hosted: HostedTopic, request: MetadataRequest) -> MetadataResponseTopic:
    answer = MetadataResponseTopic(
        name=hosted.topic.name,
        topic_id=hosted.topic.id.bytes,
        is_internal=is_internal(hosted.topic.name),
    )
    if request.include_topic_authorized_operations:
        answer.topic_authorized_operations = TOPIC_OPERATIONS
    return answer


def _partitions(
    partitions: list[Partition], first: int, node: int
) -> list[MetadataResponsePartition]:
    return [
        MetadataResponsePartition(
            error_code=ErrorCode.LEADER_NOT_AVAILABLE if offline else ErrorCode.NONE,
            partition_index=index,
            leader_id=-1 if offline else node,
            leader_epoch=partition.leader_epoch,
            replica_nodes=[node],
            isr_nodes=[node],
            offline_replicas=[node] if offline else [],
        )
        for index, partition in enumerate(partitions, first)
        for offline in (bool(partition.log.quarantined),)
    ]
