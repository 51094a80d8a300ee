"""A small request may have a huge response: what that may take of the listener's memory."""

import asyncio
import gc
import logging

import pytest

from strom.model.errors import ErrorCode
from strom.model.settings import MIB
from strom.server.kafka.response_memory import (
    SMALL_RESPONSE,
    EncodedResponse,
    ResponseExceedsMemory,
)
from strom.server.memory import MemoryPool
from strom.wire.kafka.messages.k03_metadata import MetadataRequest
from strom.wire.kafka.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from strom.wire.kafka.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartitions,
)
from strom.wire.kafka.messages.k10_find_coordinator import FindCoordinatorRequest
from strom.wire.kafka.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from strom.wire.kafka.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tests.server.kafka_calls import Caller, RunningNode, create_request, running_node

GROUP_RESOURCE = 32
METADATA_BYTES = 4000


def run(test):
    asyncio.run(asyncio.wait_for(test, 60))


def offset_fetch(times: int) -> OffsetFetchRequest:
    """The offset of one partition, as often as this."""
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=[0] * times)
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[topic])])


async def with_large_offset(node: RunningNode) -> Caller:
    """A client of a group whose committed offset has much metadata."""
    caller = await node.caller()
    await caller.call(create_request("t"), 5)
    await caller.call(FindCoordinatorRequest(key="g"), 0)
    offset = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata="m" * METADATA_BYTES
    )
    committed = await caller.call(
        OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=-1,
            topics=[OffsetCommitRequestTopic(name="t", partitions=[offset])],
        ),
        6,
    )
    assert committed.topics[0].partitions[0].error_code == ErrorCode.NONE
    return caller


def test_a_response_larger_than_what_is_free_costs_its_client_the_connection(caplog):
    async def test():
        async with running_node(max_bytes_in_flight=16 * MIB) as node:
            caller, other = await with_large_offset(node), await node.caller()
            await caller.send(offset_fetch(5 * MIB // METADATA_BYTES), 8)
            assert await caller.is_closed()
            assert (await other.call(MetadataRequest(topics=None), 9)).brokers
            for _ in range(3):  # each gives back what it has reserved
                (group,) = (await other.call(offset_fetch(3 * MIB // METADATA_BYTES), 8)).groups
                found = group.topics[0].partitions
                assert {len(one.metadata) for one in found} == {METADATA_BYTES}

    with caplog.at_level(logging.INFO):
        run(test())
    assert (
        "exceeds what is free for responses (a quarter of queued.max.request.bytes" in caplog.text
    )
    assert "Traceback" not in caplog.text


def test_what_a_refused_response_has_made_is_not_left_to_the_garbage_collector():
    """It takes few objects and much memory, so the collector would not look for it."""

    async def test():
        async with running_node(max_bytes_in_flight=16 * MIB) as node:
            caller = await with_large_offset(node)
            gc.collect()
            gc.disable()
            try:
                await caller.send(offset_fetch(5 * MIB // METADATA_BYTES), 8)
                assert await caller.is_closed()
                await asyncio.sleep(0.01)
                kind = OffsetFetchResponsePartitions
                left = [one for one in gc.get_objects() if type(one) is kind]
            finally:
                gc.enable()
            assert left == []

    run(test())


def test_small_responses_need_nothing_of_an_exhausted_pool():
    pool = MemoryPool(4 * MIB)
    pool.force_take(4 * MIB, "somebody")
    encoded = EncodedResponse(pool, "a")
    assert encoded.on_growth(0) == encoded.on_growth(SMALL_RESPONSE) == SMALL_RESPONSE
    assert pool.in_use == 4 * MIB


def test_what_a_large_response_reserves_is_given_back_when_its_task_ends():
    async def test():
        pool = MemoryPool(4 * MIB)

        async def encode() -> None:
            encoded, size = EncodedResponse(pool, "a"), 0
            while True:
                size = encoded.on_growth(size) + 1
                assert pool.in_use in (0, size - 1)

        with pytest.raises(
            ResponseExceedsMemory, match=f"response of at least {4 * MIB + 1} bytes"
        ):
            await asyncio.create_task(encode())
        await asyncio.sleep(0)
        assert not pool.in_use

    run(test())


def test_unread_responses_of_one_address_leave_memory_for_large_ones_of_another():
    async def test():
        pool = MemoryPool(16 * MIB)
        pool.force_take(10 * MIB, "a")

        async def largest(host: str) -> int:
            encoded, size = EncodedResponse(pool, host), 0
            try:
                while True:
                    size = encoded.on_growth(size) + 1
            except ResponseExceedsMemory:
                return size - 1

        assert await asyncio.create_task(largest("a")) == 2 * MIB
        pool.force_take(2 * MIB, "a")
        assert await asyncio.create_task(largest("a")) == SMALL_RESPONSE  # has no reservation
        assert await asyncio.create_task(largest("b")) == 4 * MIB

    run(test())


def test_topics_created_alike_share_the_description_of_their_settings():
    async def test():
        async with running_node() as node:
            caller = await node.caller()
            request = create_request("a")
            request.topics += [
                CreatableTopic(name="b", num_partitions=1, replication_factor=1),
                create_request("c", retention_ms="5000").topics[0],
            ]
            assert isinstance(request, CreateTopicsRequest)
            answers = {one.name: one for one in (await caller.call(request, 5)).topics}
            values = {
                name: {config.name: config.value for config in answer.configs}
                for name, answer in answers.items()
            }
            assert values["a"] == values["b"] != values["c"]
            assert values["c"] == values["a"] | {"retention.ms": "5000"}

    run(test())


def test_groups_with_the_same_settings_share_their_description():
    async def test():
        async with running_node() as node:
            caller = await node.caller()
            await caller.call(create_request("t", retention_ms="5000"), 5)
            wanted = [(GROUP_RESOURCE, "a"), (GROUP_RESOURCE, "b"), (2, "t"), (2, "unknown")]
            resources = [
                DescribeConfigsResource(resource_type=kind, resource_name=name)
                for kind, name in wanted
            ]
            for one in resources:
                one.configuration_keys = None
            request = DescribeConfigsRequest(resources=resources, include_synonyms=True)
            first, second, topic, unknown = (await caller.call(request, 4)).results
            assert first.configs == second.configs
            assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            values = {config.name: config.value for config in topic.configs}
            assert values["retention.ms"] == "5000"

    run(test())
