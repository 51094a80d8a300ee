"""Requests with much work: they are done in slices, and other clients are served in between.

A slice is made as short as possible, so that there is a turn of the event loop between any two steps.
The tests count these turns.
"""

import asyncio
import random
import uuid
from contextlib import asynccontextmanager
from typing import Any

import pytest

from strom.model.errors import ErrorCode
from strom.model.settings import MINUTE_MS
from strom.model.steps import Offload
from strom.model.topic_settings import TopicSettings
from strom.server.kafka import long_work as slicing
from strom.server.kafka.handlers import k00_produce, k08_offset_commit
from strom.server.kafka.long_work import MAX_LARGE, MAX_SMALL, LongWork, StepsDone, run_slice
from strom.storage.validation import (
    LONG_RECORDS,
    MAX_INVALID_RECORDS,
    RECORDS_PER_STEP,
    validation_steps,
)
from strom.testing import ManualClock
from strom.wire.kafka.batch import headers
from strom.wire.kafka.compression import Codec
from strom.wire.kafka.messages import k01_fetch
from strom.wire.kafka.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from strom.wire.kafka.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from strom.wire.kafka.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from strom.wire.kafka.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from strom.wire.kafka.messages.k09_offset_fetch import OffsetFetchRequest
from strom.wire.kafka.messages.k10_find_coordinator import FindCoordinatorRequest
from strom.wire.kafka.messages.k16_list_groups import ListGroupsRequest
from strom.wire.kafka.messages.k22_init_producer_id import InitProducerIdRequest
from strom.wire.kafka.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from strom.wire.kafka.messages.k26_end_txn import EndTxnRequest
from strom.wire.kafka.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from strom.wire.kafka.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from strom.wire.kafka.messages.k78_share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from strom.wire.kafka.records import (
    SMALL_BYTES,
    SMALL_RECORDS,
    Record,
    build_batch,
    read_records,
)
from tests.server.kafka_calls import create_request, frame_of, running_node

NOW = ManualClock().now_ms()
MANY = 10 * LONG_RECORDS
GROUP_RESOURCE = 32


def run(test):
    asyncio.run(asyncio.wait_for(test, 60))


class Turns:
    """Counts the turns of the event loop."""

    def __init__(self):
        self.count = 0

    async def run(self):
        while True:
            self.count += 1
            await asyncio.sleep(0)


@asynccontextmanager
async def counted_turns():
    turns = Turns()
    task = asyncio.create_task(turns.run())
    try:
        yield turns
    finally:
        task.cancel()


@pytest.fixture
def tiny_slices(monkeypatch):
    monkeypatch.setattr(slicing, "SLICE_SECONDS", 0)


def produce(batch, topic="compacted", acks=-1, **more):
    data = PartitionProduceData(index=0, records=memoryview(batch))
    topic_data = [TopicProduceData(name=topic, partition_data=[data])]
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=topic_data, **more)


def long_batch(count=MANY, *, key=b"k", codec=Codec.ZSTD, **more):
    records = [Record(at, NOW + at % 7, key, b"%d" % at) for at in range(count)]
    return build_batch(records, codec=codec, **more)


def begin_five_minutes_ago(group):
    setting = AlterableConfig(
        name="share.auto.offset.reset", config_operation=0, value="by_duration:PT5M"
    )
    resource = AlterConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name=group, configs=[setting]
    )
    return IncrementalAlterConfigsRequest(resources=[resource])


def only_answer(response):
    return response.responses[0].partition_responses[0]


def stored(node, topic="compacted"):
    log = node.broker.topic(topic).partition(0).log
    data = log.reader.read(0, 1 << 30).data
    return [one for at, header in headers(data) for one in read_records(data, at, header)]


@asynccontextmanager
async def node_with_compacted_topic(**configs):
    async with running_node() as node:
        caller = await node.caller()
        await caller.call(create_request("compacted", cleanup_policy="compact", **configs), 5)
        yield node, caller


def test_a_long_batch_is_validated_while_the_loop_does_other_work(tiny_slices):
    async def test():
        async with node_with_compacted_topic() as (node, caller), counted_turns() as turns:
            before = turns.count
            answer = only_answer(await caller.call(produce(long_batch()), 9))
            assert (answer.error_code, answer.base_offset) == (0, 0)
            assert turns.count - before >= MANY / RECORDS_PER_STEP
            assert [one.value for one in stored(node)] == [b"%d" % at for at in range(MANY)]

    run(test())


def test_a_batch_is_recompressed_in_slices_too(tiny_slices):
    async def test():
        async with node_with_compacted_topic(compression_type="gzip") as (node, caller):
            answer = only_answer(await caller.call(produce(long_batch()), 9))
            assert answer.error_code == 0
            assert len(stored(node)) == MANY

    run(test())


def test_no_later_request_overtakes_a_long_one_or_overwrites_its_bytes(tiny_slices):
    async def test():
        async with node_with_compacted_topic() as (node, caller):
            first = long_batch(producer_id=7, producer_epoch=0, base_sequence=0, codec=0)
            rest = [
                long_batch(1, producer_id=7, producer_epoch=0, base_sequence=MANY + at)
                for at in range(100)
            ]
            requests = [produce(one) for one in (first, *rest)]
            caller.writer.write(b"".join(frame_of(request, 9) for request in requests))
            offsets = [only_answer(await caller.receive(one, 9)).base_offset for one in requests]
            assert offsets == [0, *range(MANY, MANY + 100)]
            assert [one.value for one in stored(node)][:MANY] == [b"%d" % at for at in range(MANY)]

    run(test())


def test_the_order_within_a_request_holds(tiny_slices):
    async def test():
        async with node_with_compacted_topic() as (_, caller):
            batches = [
                long_batch(producer_id=7, producer_epoch=0, base_sequence=0),
                long_batch(1, producer_id=7, producer_epoch=0, base_sequence=MANY),
            ]
            request = produce(batches[0])
            request.topic_data[0].partition_data += produce(batches[1]).topic_data[0].partition_data
            response = await caller.call(request, 9)
            answers = response.responses[0].partition_responses
            assert [one.base_offset for one in answers] == [0, MANY]

    run(test())


@pytest.mark.parametrize("topic_settings", [{}, {"message_timestamp_type": "LogAppendTime"}])
def test_a_long_batch_without_keys_is_refused_with_a_bounded_list(tiny_slices, topic_settings):
    async def test():
        async with node_with_compacted_topic(**topic_settings) as (node, caller):
            answer = only_answer(await caller.call(produce(long_batch(key=None)), 9))
            assert answer.error_code == ErrorCode.INVALID_RECORD
            reported = [one.batch_index for one in answer.record_errors]
            assert reported == list(range(MAX_INVALID_RECORDS))
            records = [Record(at, NOW, b"k" if at < MANY - 1 else None, b"") for at in range(MANY)]
            answer = only_answer(await caller.call(produce(build_batch(records)), 9))
            assert answer.error_code == ErrorCode.INVALID_RECORD
            assert [one.batch_index for one in answer.record_errors] == [MANY - 1]
            assert stored(node) == []

    run(test())


def test_a_long_batch_without_acks_is_appended_or_closes_its_connection(tiny_slices):
    async def test():
        async with node_with_compacted_topic() as (node, caller):
            await caller.send(produce(long_batch(), acks=0), 9)
            await caller.call(MetadataRequest(topics=[]), 9)  # in the order of the requests
            assert node.broker.topic("compacted").partition(0).log.end_offset == MANY
            await caller.send(produce(long_batch(key=None), acks=0), 9)
            assert await caller.is_closed()

    run(test())


def test_a_request_with_many_partitions_is_appended_in_slices(tiny_slices, monkeypatch):
    monkeypatch.setattr(k00_produce, "MAX_AT_ONCE", 3)

    async def test():
        async with running_node() as node, counted_turns() as turns:
            caller = await node.caller()
            await caller.call(create_request("many", 20), 5)
            batch = build_batch([Record(0, NOW, None, b"v")])
            data = [PartitionProduceData(index=at, records=memoryview(batch)) for at in range(20)]
            topic_data = [TopicProduceData(name="many", partition_data=data)]
            before = turns.count
            response = await caller.call(
                ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topic_data), 9
            )
            answers = response.responses[0].partition_responses
            assert [(one.index, one.error_code) for one in answers] == [(at, 0) for at in range(20)]
            assert turns.count - before >= 20

    run(test())


def test_a_transaction_that_ends_during_validation_gets_no_more_records(monkeypatch):
    """They would come after its marker, and block readers of committed records for ever."""
    began, may_go_on = asyncio.Event(), asyncio.Event()
    finish = LongWork.finish

    async def held_up(self, steps, paused):
        if not began.is_set():  # later ones are of other requests, on a busy machine
            began.set()
            await may_go_on.wait()
        return await finish(self, steps, paused)

    async def test():
        async with node_with_compacted_topic() as (node, caller):
            other = await node.caller()
            await other.call(FindCoordinatorRequest(key="t", key_type=1), 1)
            new = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
            producer = await other.call(new, 2)
            who = {
                "producer_id": producer.producer_id,
                "producer_epoch": producer.producer_epoch,
            }
            await other.call(
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id="t",
                    v3_and_below_producer_id=producer.producer_id,
                    v3_and_below_producer_epoch=producer.producer_epoch,
                    v3_and_below_topics=[AddPartitionsToTxnTopic(name="compacted", partitions=[0])],
                ),
                2,
            )
            batch = long_batch(base_sequence=0, transactional=True, **who)
            request = produce(batch, transactional_id="t")
            monkeypatch.setattr(LongWork, "finish", held_up)
            await caller.send(request, 9)
            await began.wait()
            ended = await other.call(EndTxnRequest(transactional_id="t", committed=True, **who), 2)
            assert ended.error_code == 0
            may_go_on.set()
            answer = only_answer(await caller.receive(request, 9))
            assert answer.error_code == ErrorCode.INVALID_TXN_STATE
            assert not node.broker.topic("compacted").partition(0).log.has_open_transactions

    run(test())


def test_an_offset_is_looked_up_by_time_in_slices(tiny_slices):
    async def test():
        async with running_node() as node, counted_turns() as turns:
            caller = await node.caller()
            await caller.call(create_request("plain"), 5)
            times = [NOW] * (MANY - 1) + [NOW + 5]
            records = [Record(at, time, None, b"") for at, time in enumerate(times)]
            await caller.call(produce(build_batch(records, codec=Codec.ZSTD), "plain"), 9)
            wanted = ListOffsetsPartition(partition_index=0, timestamp=NOW + 1)
            request = ListOffsetsRequest(
                topics=[ListOffsetsTopic(name="plain", partitions=[wanted])]
            )
            before = turns.count
            response = await caller.call(request, 5)
            assert response.topics[0].partitions[0].offset == MANY - 1
            assert turns.count - before >= MANY / RECORDS_PER_STEP

    run(test())


def test_a_share_group_that_begins_at_a_time_searches_for_it_in_slices(tiny_slices):
    async def test():
        async with running_node() as node, counted_turns() as turns:
            caller = await node.caller()
            await caller.call(create_request("plain"), 5)
            now = node.broker.clock.now_ms()
            times = [now - 10 * MINUTE_MS] * (MANY - 1) + [now]
            records = [Record(at, time, None, b"") for at, time in enumerate(times)]
            await caller.call(produce(build_batch(records, codec=Codec.ZSTD), "plain"), 9)
            await caller.call(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
            await caller.call(begin_five_minutes_ago("g"), 1)
            topic = node.broker.topic("plain").topic.id.bytes
            member = str(uuid.uuid4())
            join = ShareGroupHeartbeatRequest(
                group_id="g", member_id=member, member_epoch=0, subscribed_topic_names=["plain"]
            )
            assert (await caller.call(join, 1)).error_code == 0
            request = ShareFetchRequest(
                group_id="g",
                member_id=member,
                share_session_epoch=0,
                max_wait_ms=0,
                min_bytes=1,
                max_bytes=1 << 20,
                max_records=10,
                batch_size=10,
                topics=[FetchTopic(topic_id=topic, partitions=[FetchPartition(partition_index=0)])],
            )
            before = turns.count
            response = await caller.call(request, 2)
            (found,) = response.responses[0].partitions[0].acquired_records
            assert (found.first_offset, found.last_offset) == (MANY - 1, MANY - 1)
            assert turns.count - before >= MANY / RECORDS_PER_STEP

    run(test())


def test_groups_are_listed_in_slices(tiny_slices):
    async def test():
        async with running_node() as node, counted_turns() as turns:
            caller = await node.caller()
            await caller.call(create_request("plain"), 5)
            await caller.call(FindCoordinatorRequest(key="group"), 0)
            names = [f"group-{at}" for at in range(50)]
            offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
            for name in names:
                topics = [OffsetCommitRequestTopic(name="plain", partitions=[offset])]
                await caller.call(OffsetCommitRequest(group_id=name, topics=topics), 6)
            before = turns.count
            response = await caller.call(ListGroupsRequest(), 4)
            assert sorted(one.group_id for one in response.groups) == sorted(names)
            assert turns.count - before >= 2 * len(names)  # building and encoding the response

    run(test())


def test_the_offsets_of_many_partitions_are_committed_in_slices_and_in_order(
    tiny_slices, monkeypatch
):
    monkeypatch.setattr(k08_offset_commit, "MAX_AT_ONCE", 7)

    def commit(offset, count):
        offsets = [
            OffsetCommitRequestPartition(partition_index=at, committed_offset=offset)
            for at in range(count)
        ]
        topics = [
            OffsetCommitRequestTopic(name=name, partitions=offsets) for name in ("a", "b", "none")
        ]
        return OffsetCommitRequest(group_id="g", topics=topics)

    async def test():
        async with running_node(auto_create_topics=False) as node, counted_turns() as turns:
            caller = await node.caller()
            for name in ("a", "b"):
                await caller.call(create_request(name, 20), 5)
            await caller.call(FindCoordinatorRequest(key="g"), 0)
            first, second = commit(1, 20), commit(2, 1)
            before = turns.count
            caller.writer.write(frame_of(first, 6) + frame_of(second, 6))
            response = await caller.receive(first, 6)
            assert turns.count - before >= 60 // 7
            wrong = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert [
                (topic.name, [(one.partition_index, one.error_code) for one in topic.partitions])
                for topic in response.topics
            ] == [
                (name, [(at, code) for at in range(20)])
                for name, code in (("a", 0), ("b", 0), ("none", wrong))
            ]
            await caller.receive(second, 6)
            fetched = await caller.call(OffsetFetchRequest(group_id="g", topics=None), 6)
            for topic in fetched.topics:
                offsets = [one.committed_offset for one in topic.partitions]
                assert offsets == [2] + [1] * 19

    run(test())


def test_a_large_request_is_decoded_in_slices_and_answered_in_order(tiny_slices):
    async def test():
        async with running_node(auto_create_topics=False) as node, counted_turns() as turns:
            caller = await node.caller()
            await caller.call(MetadataRequest(topics=[]), 9)
            names = [f"{'x' * 90}-{at}" for at in range(500)]
            large = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
            small = MetadataRequest(topics=[MetadataRequestTopic(name="small")])
            before = turns.count
            caller.writer.write(frame_of(large, 9) + frame_of(small, 9))
            response = await caller.receive(large, 9)
            assert [topic.name for topic in response.topics] == names
            assert turns.count - before >= 2 * len(names)
            assert (await caller.receive(small, 9)).topics[0].name == "small"

    run(test())


def test_a_large_request_that_is_malformed_closes_its_connection(tiny_slices):
    async def test():
        async with running_node() as node:
            caller = await node.caller()
            await caller.call(MetadataRequest(topics=[]), 9)
            topics = [MetadataRequestTopic(name="x" * 90) for _ in range(500)]
            frame = frame_of(MetadataRequest(topics=topics), 9)[4:-200]
            caller.writer.write(len(frame).to_bytes(4, "big") + frame)
            assert await caller.is_closed()

    run(test())


REPEATED = 10_000
"""How often a large request names the same partition."""


def large_fetch():
    partitions = [k01_fetch.FetchPartition(partition=0, fetch_offset=0)] * REPEATED
    topics = [k01_fetch.FetchTopic(topic="t", partitions=partitions)]
    limits: dict[str, Any] = {"max_wait_ms": 60_000, "min_bytes": 1}
    return k01_fetch.FetchRequest(session_epoch=-1, topics=topics, **limits), 11


def large_share_fetch(topic_id):
    partitions = [FetchPartition(partition_index=0)] * REPEATED
    topics = [FetchTopic(topic_id=topic_id, partitions=partitions)]
    limits: dict[str, Any] = {
        "max_wait_ms": 60_000,
        "min_bytes": 1,
        "max_bytes": 1000,
        "max_records": 10,
    }
    request = ShareFetchRequest(
        group_id="g", member_id="m", share_session_epoch=0, topics=topics, **limits
    )
    return request, 2


@pytest.mark.parametrize("shared", [False, True])
def test_a_large_fetch_that_waits_holds_no_memory_and_ends_with_its_client(
    tiny_slices, served, shared
):
    async def test():
        async with running_node() as node:
            caller = await node.caller()
            await caller.call(create_request("t"), 5)
            topic = node.broker.topic("t")
            await caller.call(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
            member = ShareGroupHeartbeatRequest(
                group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["t"]
            )
            assert (await caller.call(member, 1)).error_code == 0
            await caller.send(
                *(large_share_fetch(topic.topic.id.bytes) if shared else large_fetch())
            )
            waiting = topic.partition(0)._waiting_for_records
            requests = served[0].listener.memory.pool_of(1 << 20)
            while not waiting:
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert requests.in_use == 0
            caller.leave()
            while waiting:
                await asyncio.sleep(0.001)

    run(test())


def adding_up(numbers):
    total = 0
    for number in numbers:
        total += number
        yield None
    doubled = yield Offload(lambda: 2 * total)
    return doubled


def test_a_slice_ends_when_its_time_is_up_and_the_next_one_continues(tiny_slices):
    work = adding_up([1, 2])
    assert run_slice(work) is None
    assert run_slice(work) is None
    aside: Any = run_slice(work)
    assert run_slice(work, aside()) == StepsDone(6)


def test_short_work_takes_one_slice(monkeypatch):
    monkeypatch.setattr(slicing, "SLICE_SECONDS", 60)
    aside: Any = run_slice(adding_up(range(1000)))
    assert aside() == 2 * sum(range(1000))


def test_each_turn_does_one_slice_of_one_work_after_the_other(tiny_slices):
    done = []

    def work(name):
        for at in range(3):
            done.append(f"{name}{at}")
            yield None
        return name

    async def test():
        long_work = LongWork()
        assert await asyncio.gather(*(long_work.run(work(name)) for name in "abc")) == [*"abc"]

    run(test())
    assert done == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]


@pytest.mark.parametrize(("large", "limit"), [(True, MAX_LARGE), (False, MAX_SMALL)])
def test_only_few_requests_hold_decompressed_records_at_a_time(tiny_slices, large, limit):
    holding, most = set(), []

    def work(name):
        yield Offload(lambda: None, large)
        holding.add(name)
        most.append(len(holding))
        while max(most) < limit:
            yield None
        holding.remove(name)

    async def test():
        long_work = LongWork()
        await asyncio.gather(*(long_work.run(work(name)) for name in range(2 * limit)))

    run(test())
    assert max(most) == limit


def validation(batch):
    return validation_steps(bytearray(batch), TopicSettings(cleanup_policy=("compact",)), NOW)


def offloads(steps):
    """Of each function that work runs aside: whether its result is large."""
    sizes = []
    try:
        aside = next(steps)
        while True:
            if aside is not None:
                sizes.append(aside.large)
            aside = steps.send(None if aside is None else aside())
    except StopIteration:
        return sizes


def test_only_compressed_records_are_unpacked_aside_and_many_or_large_ones_are_large():
    assert offloads(validation(long_batch(codec=Codec.NONE))) == []
    assert offloads(validation(long_batch())) == [False]
    assert offloads(validation(long_batch(SMALL_RECORDS + 1))) == [True]
    uncompressible = random.Random(1).randbytes(SMALL_BYTES // 50)
    large_value = [Record(0, NOW, b"k", uncompressible + bytes(SMALL_BYTES))]
    assert offloads(validation(build_batch(large_value, codec=Codec.ZSTD))) == [False, True]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_short_work_does_not_wait_for_large_records(tiny_slices, codec):
    async def test():
        long_work = LongWork()
        ended = asyncio.Event()

        def large():
            yield Offload(lambda: None, large=True)
            while not ended.is_set():
                yield None

        works = [asyncio.create_task(long_work.run(large())) for _ in range(3 * MAX_LARGE)]
        await asyncio.sleep(0)
        await long_work.run(validation(long_batch(600, codec=codec)))
        ended.set()
        await asyncio.gather(*works)

    run(test())


def test_records_that_turn_out_to_be_large_do_not_keep_a_small_slot(tiny_slices):
    async def test():
        long_work = LongWork()
        ended = asyncio.Event()

        def growing():
            yield Offload(lambda: None)
            yield Offload(lambda: None, large=True)
            while not ended.is_set():
                yield None

        works = [asyncio.create_task(long_work.run(growing())) for _ in range(2 * MAX_SMALL)]
        await asyncio.sleep(0)
        await long_work.run(adding_up([1]))
        ended.set()
        await asyncio.gather(*works)

    run(test())


def test_short_work_beside_long_work_waits_for_one_slice_of_each(tiny_slices):
    done = []

    def work(name, slices):
        for _ in range(slices):
            done.append(name)
            yield None

    async def test():
        long_work = LongWork()
        works = [asyncio.create_task(long_work.run(work(name, 100))) for name in "abcdef"]
        await asyncio.sleep(0)
        await long_work.run(work("short", 3))
        await asyncio.gather(*works)

    run(test())
    last = len(done) - done[::-1].index("short")
    assert last <= 4 * 7
