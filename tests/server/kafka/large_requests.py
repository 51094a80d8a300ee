"""A node with a topic of many partitions, and requests that name all of them.

The handlers are called directly, because decoding and encoding are done in slices of their own. A slice
is made as short as possible; then there is a turn of the event loop after each name.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any, NamedTuple

from strom.server.kafka.api import HANDLERS, Context, PendingResponse, ReadOnly, Services
from strom.wire.kafka.messages import (
    k01_fetch,
    k09_offset_fetch,
    k10_find_coordinator,
    k22_init_producer_id,
    k24_add_partitions_to_txn,
    k25_add_offsets_to_txn,
    k26_end_txn,
    k76_share_group_heartbeat,
    k78_share_fetch,
    k79_share_acknowledge,
)
from strom.wire.kafka.messages import (
    k28_txn_offset_commit as k28,
)
from strom.wire.kafka.messages import (
    k47_offset_delete as k47,
)
from strom.wire.kafka.schema import Request

MANY = 150
INDEXES = list(range(MANY))
NAMES = [f"unknown-{index}" for index in INDEXES]
MEMBER = "a-member"


class Turns:
    """Counts the turns of the event loop."""

    def __init__(self):
        self.count = 0

    async def run(self):
        while True:
            self.count += 1
            await asyncio.sleep(0)


class World(NamedTuple):
    """A node with a topic of many partitions, and its handlers."""

    node: Any
    services: Services
    turns: Turns

    async def handle(self, request: Request, version: int) -> Any:
        context = Context(self.services, version, "test", "127.0.0.1:1")
        outcome = HANDLERS[request.SCHEMA.api_key].handle(request, context)
        if isinstance(outcome, Generator):
            return await self.services.long_work.run(outcome)
        if isinstance(outcome, ReadOnly):
            return await outcome.work
        if isinstance(outcome, PendingResponse):
            return outcome.convert(await outcome.result)
        return await outcome if isinstance(outcome, Awaitable) else outcome

    async def turns_of(self, request: Request, version: int) -> tuple[int, Any]:
        before = self.turns.count
        response = await self.handle(request, version)
        return self.turns.count - before, response

    async def largest_step(self, measure: Callable[[], int], request: Request, version: int) -> int:
        """By how much a figure changes at most within one turn, while a request is handled."""
        handling = asyncio.create_task(self.handle(request, version))
        largest, last = 0, measure()
        while not handling.done():
            await asyncio.sleep(0)
            largest, last = max(largest, abs(measure() - last)), measure()
        assert last
        return largest

    @property
    def topic_id(self) -> bytes:
        topic_id: bytes = self.node.broker.topic("big").topic.id.bytes
        return topic_id

    async def begin_transaction(self) -> dict[str, int]:
        await self.handle(k10_find_coordinator.FindCoordinatorRequest(key="t", key_type=1), 1)
        new = k22_init_producer_id.InitProducerIdRequest(
            transactional_id="t", transaction_timeout_ms=60_000
        )
        producer = await self.handle(new, 2)
        return {
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
        }

    async def open_share_session(self) -> None:
        join = k76_share_group_heartbeat.ShareGroupHeartbeatRequest(
            group_id="s", member_id=MEMBER, member_epoch=0, subscribed_topic_names=["big"]
        )
        assert (await self.handle(join, 1)).error_code == 0
        assert (await self.handle(share_fetch(self, epoch=0), 2)).error_code == 0


def run(test):
    asyncio.run(asyncio.wait_for(test, 60))


def fetch(**options):
    fields = {"max_wait_ms": 0, "min_bytes": 1, "session_epoch": -1, **options}
    partitions = [
        k01_fetch.FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1000)
        for index in INDEXES
    ]
    topics = [k01_fetch.FetchTopic(topic="big", partitions=partitions)]
    return k01_fetch.FetchRequest(topics=topics, **fields)


def share_fetch(world, *, epoch, wait_ms=0):
    partitions = [k78_share_fetch.FetchPartition(partition_index=index) for index in INDEXES]
    return k78_share_fetch.ShareFetchRequest(
        group_id="s",
        member_id=MEMBER,
        share_session_epoch=epoch,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        max_records=1000,
        batch_size=1000,
        topics=[k78_share_fetch.FetchTopic(topic_id=world.topic_id, partitions=partitions)],
    )


def acknowledge_in_first(world, batches, *, epoch, fetches):
    """Acknowledge in the first partition, in a fetch or without one."""
    if fetches:
        request = share_fetch(world, epoch=epoch)
        request.topics[0].partitions[0].acknowledgement_batches = batches
        return request
    partition = k79_share_acknowledge.AcknowledgePartition(
        partition_index=0, acknowledgement_batches=batches
    )
    topic = k79_share_acknowledge.AcknowledgeTopic(topic_id=world.topic_id, partitions=[partition])
    return k79_share_acknowledge.ShareAcknowledgeRequest(
        group_id="s", member_id=MEMBER, share_session_epoch=epoch, topics=[topic]
    )


def commit(module, **fields):
    prefix = "Txn" if module is k28 else ""
    partition = getattr(module, f"{prefix}OffsetCommitRequestPartition")
    topic = getattr(module, f"{prefix}OffsetCommitRequestTopic")
    offsets = [partition(partition_index=index, committed_offset=0) for index in INDEXES]
    request = getattr(module, f"{prefix}OffsetCommitRequest")
    return request(group_id="g", topics=[topic(name="big", partitions=offsets)], **fields)


def offset_fetch(**fields):
    wanted = k09_offset_fetch.OffsetFetchRequestTopics(name="big", partition_indexes=INDEXES)
    groups = [k09_offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=[wanted])]
    return k09_offset_fetch.OffsetFetchRequest(groups=groups, **fields)


def offset_delete():
    gone = [k47.OffsetDeleteRequestPartition(partition_index=index) for index in INDEXES]
    topics = [k47.OffsetDeleteRequestTopic(name="big", partitions=gone)]
    return k47.OffsetDeleteRequest(group_id="g", topics=topics)


def of_big(request, topic_type, partition, **fields):
    """A request whose only topic has a list of structs."""
    partitions = [partition(index) for index in INDEXES]
    return request(topics=[topic_type(partitions=partitions, **fields)])


def add_partitions(who, **fields):
    topics = [k24_add_partitions_to_txn.AddPartitionsToTxnTopic(name="big", partitions=INDEXES)]
    one = k24_add_partitions_to_txn.AddPartitionsToTxnTransaction(
        transactional_id="t", topics=topics, **who, **fields
    )
    return k24_add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=[one])


def end(who, *, commit=True):
    return k26_end_txn.EndTxnRequest(transactional_id="t", committed=commit, **who)


async def ready_to_commit(it):
    """Begin a transaction and add the offsets of the group."""
    who = await it.begin_transaction()
    await it.handle(
        k25_add_offsets_to_txn.AddOffsetsToTxnRequest(transactional_id="t", group_id="g", **who), 2
    )
    return who


async def committed_offsets(it):
    (group,) = (await it.handle(offset_fetch(), 8)).groups
    return [one.committed_offset for one in group.topics[0].partitions]


def codes_of(response):
    return {one.error_code for topic in response.topics for one in topic.partitions}
