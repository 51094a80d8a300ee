"""ConsumerGroupHeartbeat, api key 68: join, stay in and leave a consumer group (KIP-848).

Behaviour: never waits for other members. The response has the assignment if it has changed, or if the
request is a full one. Versions: 1 client-generated member ids (KIP-1082), topics by pattern.
"""

import uuid
from collections.abc import Iterable

from strom.coordination.groups.consumer.commands import ConsumerHeartbeat, ConsumerHeartbeatResponse
from strom.coordination.groups.consumer.records import Partitions, TopicIdPartition, by_topic
from strom.model.steps import Steps, run_at_once
from strom.server.kafka.api import (
    Context,
    Needs,
    Operation,
    Outcome,
    PendingResponse,
    Resource,
    handler,
)
from strom.wire.kafka.messages.k68_consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from strom.wire.kafka.schema import Uuid

FIRST_VERSION_WITH_OWN_IDS = 1
MAX_AT_ONCE = 1000
"""Owned partitions that are read in one turn of the event loop: less than a millisecond."""


@handler(
    ConsumerGroupHeartbeatRequest,
    Needs(Operation.READ, Resource.GROUP),
    Needs(Operation.DESCRIBE, Resource.TOPIC),
)
def consumer_group_heartbeat(request: ConsumerGroupHeartbeatRequest, context: Context) -> Outcome:
    topics = request.topic_partitions
    if topics is None:
        return _heartbeat(request, None, context)
    if _has_many_partitions(topics):
        return _heartbeat_in_slices(request, topics, context)
    return _heartbeat(request, run_at_once(_owned(topics)), context)


def _has_many_partitions(topics: list[TopicPartitions]) -> bool:
    return len(topics) > MAX_AT_ONCE or sum(len(one.partitions) for one in topics) > MAX_AT_ONCE


async def _heartbeat_in_slices(
    request: ConsumerGroupHeartbeatRequest, topics: list[TopicPartitions], context: Context
) -> ConsumerGroupHeartbeatResponse:
    owned = await context.long_work.run(_owned(topics))
    response = _heartbeat(request, owned, context)
    return response.convert(await response.result)


def _heartbeat(
    request: ConsumerGroupHeartbeatRequest, owned: Partitions | None, context: Context
) -> PendingResponse[ConsumerGroupHeartbeatResponse]:
    names = request.subscribed_topic_names
    command = ConsumerHeartbeat(
        group=request.group_id,
        member=request.member_id,
        epoch=request.member_epoch,
        fresh="" if request.member_id else str(uuid.uuid4()),
        instance=request.instance_id,
        rack=request.rack_id,
        client_id=context.client_id or "",
        client_host=context.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=None if names is None else frozenset(names),
        pattern=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=owned,
        requires_id=context.version >= FIRST_VERSION_WITH_OWN_IDS,
    )
    return PendingResponse(context.groups.submit(command), _response)


def _response(answer: ConsumerHeartbeatResponse) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=answer.code,
        error_message=answer.message,
        member_id=answer.member,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=answer.interval_ms,
        assignment=(
            None if answer.assignment is None else to_assignment(by_topic(answer.assignment))
        ),
    )


def _owned(topics: list[TopicPartitions]) -> Steps[Partitions]:
    owned = set()
    for topic in topics:
        yield None
        for index in topic.partitions:
            owned.add(TopicIdPartition(topic.topic_id, index))
            yield None
    return frozenset(owned)


def to_assignment(topics: Iterable[tuple[Uuid, Iterable[int]]]) -> Assignment:
    """Partitions by the id of their topic, for members of consumer groups and of share groups."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=list(indexes))
            for topic_id, indexes in topics
        ]
    )
