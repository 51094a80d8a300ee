"""DescribeTopicPartitions, api key 75: topics with their partitions, page by page.

Behaviour: at most `response_partition_limit` partitions in one response; the cursor is the start of the
next page. Topics are ordered by name.
"""

from strom.broker.partition import HostedTopic
from strom.model.errors import ApiError, ErrorCode
from strom.model.steps import Steps
from strom.model.topics import check_topic_name, is_internal
from strom.server.kafka.api import (
    TOPIC_OPERATIONS,
    Context,
    Needs,
    Operation,
    Resource,
    handler,
)
from strom.wire.kafka.messages.k75_describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

MAX_PARTITIONS_IN_ANSWER = 2000


@handler(DescribeTopicPartitionsRequest, Needs(Operation.DESCRIBE, Resource.TOPIC))
def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, context: Context
) -> Steps[DescribeTopicPartitionsResponse]:
    room = max(1, min(request.response_partition_limit, MAX_PARTITIONS_IN_ANSWER))
    response = DescribeTopicPartitionsResponse()
    cursor = request.cursor
    if cursor and not _is_valid(cursor, request):
        return (yield from _refused(request))
    for name in _names(request, context):
        yield None
        first = cursor.partition_index if cursor and cursor.topic_name == name else 0
        if room <= 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        try:
            check_topic_name(name)
            hosted = context.broker.topic(name)
        except ApiError as error:
            response.topics.append(
                DescribeTopicPartitionsResponseTopic(error_code=error.code, name=name)
            )
            continue
        first = min(first, len(hosted.partitions))
        last = min(len(hosted.partitions), first + room)
        response.topics.append(_topic(hosted, first, last, context))
        room -= last - first
        if last < len(hosted.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=last)
            break
    return response


def _is_valid(cursor: Cursor, request: DescribeTopicPartitionsRequest) -> bool:
    requested = {topic.name for topic in request.topics}
    return cursor.partition_index >= 0 and (not requested or cursor.topic_name in requested)


def _refused(request: DescribeTopicPartitionsRequest) -> Steps[DescribeTopicPartitionsResponse]:
    """The cursor names a topic that was not requested, or a negative partition."""
    response = DescribeTopicPartitionsResponse()
    for topic in request.topics:
        response.topics.append(
            DescribeTopicPartitionsResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=topic.name
            )
        )
        yield None
    return response


def _names(request: DescribeTopicPartitionsRequest, context: Context) -> list[str]:
    asked = {topic.name for topic in request.topics}
    names = sorted(asked or {hosted.topic.name for hosted in context.broker.topics()})
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
    return names


def _topic(
    hosted: HostedTopic, first: int, last: int, context: Context
) -> DescribeTopicPartitionsResponseTopic:
    node = context.services.endpoint.node_id
    return DescribeTopicPartitionsResponseTopic(
        name=hosted.topic.name,
        topic_id=hosted.topic.id.bytes,
        is_internal=is_internal(hosted.topic.name),
        topic_authorized_operations=TOPIC_OPERATIONS,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                error_code=ErrorCode.LEADER_NOT_AVAILABLE if offline else ErrorCode.NONE,
                partition_index=index,
                leader_id=-1 if offline else node,
                leader_epoch=hosted.partitions[index].leader_epoch,
                replica_nodes=[node],
                isr_nodes=[node],
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=[node] if offline else [],
            )
            for index in range(first, last)
            for offline in (bool(hosted.partitions[index].log.quarantined),)
        ],
    )
