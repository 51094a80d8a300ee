"""What happens while a request with many names is handled, or waits: none of it falsifies anything."""

import asyncio

import pytest

from strom.model.errors import ErrorCode
from strom.server.kafka.handlers import k28_txn_offset_commit
from strom.wire.kafka.messages import (
    k08_offset_commit,
    k42_delete_groups,
    k76_share_group_heartbeat,
    k91_alter_share_group_offsets,
    k92_delete_share_group_offsets,
)
from strom.wire.kafka.messages import (
    k28_txn_offset_commit as k28,
)
from tests.server.kafka.large_requests import (
    INDEXES,
    MANY,
    MEMBER,
    codes_of,
    commit,
    committed_offsets,
    end,
    fetch,
    offset_fetch,
    ready_to_commit,
    run,
    share_fetch,
)
from tests.server.kafka_calls import produce_request


def test_a_transaction_that_ends_amid_a_commit_of_offsets_gets_no_more(world, monkeypatch):
    """They would come after its marker, and be pending for ever."""
    monkeypatch.setattr(k28_txn_offset_commit, "MAX_AT_ONCE", 1)

    async def test():
        async with world() as it:
            who = await ready_to_commit(it)
            request = commit(k28, transactional_id="t", **who)
            offsets = it.services.groups.look()
            committing = asyncio.create_task(it.handle(request, 3))
            while not offsets.pending("g"):
                await asyncio.sleep(0)
            ended = await it.handle(end(who, commit=False), 2)
            assert ended.error_code == 0
            assert codes_of(await committing) > {0}
            assert not offsets.pending("g")

    run(test())


def test_a_topic_that_is_recreated_amid_a_commit_of_offsets_gets_none(world, monkeypatch):
    monkeypatch.setattr(k28_txn_offset_commit, "MAX_AT_ONCE", 1)

    async def test():
        async with world() as it:
            who = await ready_to_commit(it)
            request = commit(k28, transactional_id="t", **who)
            offsets = it.services.groups.look()
            committing = asyncio.create_task(it.handle(request, 3))
            while not offsets.pending("g"):
                await asyncio.sleep(0)
            async with it.services.long_work._turns:  # the commit waits for its next turn
                await it.node.broker.delete_topic("big")
                await it.node.broker.create_topic("big", MANY, {})
            assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in codes_of(await committing)
            await it.handle(end(who), 2)
            assert await committed_offsets(it) == [-1] * MANY

    run(test())


def test_an_offset_that_a_shortage_kept_from_deletion_is_not_of_the_new_topic(world):
    async def test():
        async with world() as it:
            await it.handle(commit(k08_offset_commit), 6)
            it.node.broker.after_topic_deleted.clear()  # as if the disk had refused the tombstones
            await it.node.broker.delete_topic("big")
            await it.node.broker.create_topic("big", MANY, {})
            assert await committed_offsets(it) == [-1] * MANY
            everything = offset_fetch()
            everything.groups[0].topics = None
            (group,) = (await it.handle(everything, 8)).groups
            assert group.topics == []

    run(test())


def test_a_refused_commit_is_an_error_wherever_the_request_repeats_its_partition(world):
    async def test():
        async with world() as it:
            refused = [
                await it.handle(commit(k08_offset_commit, generation_id_or_member_epoch=7), 6),
                await it.handle(commit(k28, transactional_id="t", generation_id=7), 3),
            ]
            for request, version in (
                (commit(k08_offset_commit, generation_id_or_member_epoch=7), 6),
                (commit(k28, transactional_id="t", generation_id=7), 3),
            ):
                request.topics *= 2
                refused.append(await it.handle(request, version))
            assert all(0 not in codes_of(one) for one in refused)

    run(test())


def test_what_is_read_in_slices_is_reserved_until_it_is_sent(world):
    """Else each of many fetches would take the memory that is free."""

    async def test():
        async with world() as it:
            now_ms = it.node.broker.clock.now_ms()
            places = [("big", index, bytes(1000)) for index in INDEXES]
            await it.handle(produce_request(now_ms, *places), 9)
            memory = it.services.memory
            request = fetch()
            assert await it.largest_step(lambda: memory.in_use, request, 11) < 3000
            await asyncio.sleep(0)
            assert memory.in_use == 0

    run(test())


def test_a_share_fetch_of_many_partitions_waits_for_records(world):
    async def test():
        async with world() as it:
            await it.open_share_session()
            waiting = asyncio.create_task(it.handle(share_fetch(it, epoch=1, wait_ms=60_000), 2))
            shared = it.services.shares.partition("s", it.topic_id, MANY - 1)
            while not shared._waiting:
                await asyncio.sleep(0)
            now_ms = it.node.broker.clock.now_ms()
            await it.handle(produce_request(now_ms, ("big", MANY - 1, b"v")), 9)
            (topic,) = (await waiting).responses
            assert [one.partition_index for one in topic.partitions] == [MANY - 1]
            assert not shared._waiting

    run(test())


def test_a_fetch_of_many_partitions_waits_for_records(world):
    async def test():
        async with world() as it:
            first = await it.handle(fetch(session_epoch=0), 11)
            session = {"session_id": first.session_id, "session_epoch": 1}
            waiting = asyncio.create_task(it.handle(fetch(max_wait_ms=60_000, **session), 11))
            last = it.node.broker.topic("big").partition(MANY - 1)
            while not last._waiting_for_records:
                await asyncio.sleep(0)
            now_ms = it.node.broker.clock.now_ms()
            await it.handle(produce_request(now_ms, ("big", MANY - 1, b"v")), 9)
            (topic,) = (await waiting).responses
            assert [one.partition_index for one in topic.partitions] == [MANY - 1]
            assert not last._waiting_for_records

    run(test())


def test_a_fetch_of_many_partitions_ends_at_its_timeout(world):
    async def test():
        async with world() as it:
            response = await it.handle(fetch(max_wait_ms=1), 11)
            (topic,) = response.responses
            assert [one.partition_index for one in topic.partitions] == INDEXES

    run(test())


@pytest.mark.parametrize("shared", [False, True])
def test_a_stop_ends_the_wait_for_records_of_many_partitions(world, shared):
    async def test():
        async with world() as it:
            await it.open_share_session()
            request, version = fetch(max_wait_ms=60_000), 11
            if shared:
                request, version = share_fetch(it, epoch=1, wait_ms=60_000), 2
            waiting = asyncio.create_task(it.handle(request, version))
            while not it.node.broker.topic("big").partition(MANY - 1)._waiting_for_records:
                await asyncio.sleep(0)
        assert (await waiting).error_code == 0

    run(test())


def test_a_fetch_of_many_partitions_waits_no_longer_than_its_client(world):
    async def test():
        async with world() as it:
            caller = await it.node.caller()
            await caller.send(fetch(max_wait_ms=60_000), 11)
            last = it.node.broker.topic("big").partition(MANY - 1)
            while not last._waiting_for_records:
                await asyncio.sleep(0)
            caller.leave()
            while last._waiting_for_records:
                await asyncio.sleep(0)

    run(test())


def alter_share_offsets(group):
    one = k91_alter_share_group_offsets
    moved = [
        one.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=0)
        for index in INDEXES
    ]
    topics = [one.AlterShareGroupOffsetsRequestTopic(topic_name="big", partitions=moved)]
    return one.AlterShareGroupOffsetsRequest(group_id=group, topics=topics)


@pytest.mark.parametrize(
    ("request_of", "version"),
    [
        (lambda: alter_share_offsets("n"), 0),
        (lambda: k42_delete_groups.DeleteGroupsRequest(groups_names=["n"]), 2),
        (
            lambda: k92_delete_share_group_offsets.DeleteShareGroupOffsetsRequest(
                group_id="n",
                topics=[
                    k92_delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic(
                        topic_name="big"
                    )
                ],
            ),
            0,
        ),
    ],
)
def test_no_member_joins_a_share_group_while_it_is_changed(world, request_of, version):
    join = k76_share_group_heartbeat.ShareGroupHeartbeatRequest(
        group_id="n", member_id=MEMBER, member_epoch=0, subscribed_topic_names=["big"]
    )

    async def test():
        async with world() as it:
            assert (await it.handle(alter_share_offsets("n"), 0)).error_code == 0
            changing = asyncio.create_task(it.handle(request_of(), version))
            while "n" not in it.services.shares._administered:
                await asyncio.sleep(0)
            refused = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # clients retry it
            assert (await it.handle(join, 1)).error_code == refused
            assert (await it.handle(alter_share_offsets("n"), 0)).error_code == refused
            response = await changing
            assert not {one.error_code for one in getattr(response, "results", [response])}.pop()
            assert (await it.handle(join, 1)).error_code == 0

    run(test())
