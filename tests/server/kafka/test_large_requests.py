"""Requests with many names: no handler does all its work in one turn of the event loop.

The tests count the turns; see `large_requests`.
"""

from collections.abc import Callable

import pytest

from strom.broker import markers
from strom.broker.partition import Partition
from strom.broker.share_groups import ShareGroups
from strom.model.errors import ErrorCode
from strom.model.topics import TopicPartition
from strom.server.kafka import share_acknowledging
from strom.server.kafka.handlers import (
    k00_produce,
    k28_txn_offset_commit,
    k47_offset_delete,
    k68_consumer_group_heartbeat,
)
from strom.storage.validation import LongValidation
from strom.wire.kafka.messages import (
    k00_produce as k00,
)
from strom.wire.kafka.messages import (
    k02_list_offsets,
    k03_metadata,
    k08_offset_commit,
    k09_offset_fetch,
    k10_find_coordinator,
    k13_leave_group,
    k15_describe_groups,
    k19_create_topics,
    k20_delete_topics,
    k21_delete_records,
    k23_offset_for_leader_epoch,
    k27_write_txn_markers,
    k32_describe_configs,
    k33_alter_configs,
    k34_alter_replica_log_dirs,
    k35_describe_log_dirs,
    k37_create_partitions,
    k42_delete_groups,
    k43_elect_leaders,
    k44_incremental_alter_configs,
    k45_alter_partition_reassignments,
    k55_describe_quorum,
    k57_update_features,
    k61_describe_producers,
    k65_describe_transactions,
    k69_consumer_group_describe,
    k75_describe_topic_partitions,
    k77_share_group_describe,
    k78_share_fetch,
    k79_share_acknowledge,
    k90_describe_share_group_offsets,
    k91_alter_share_group_offsets,
    k92_delete_share_group_offsets,
)
from strom.wire.kafka.messages import (
    k28_txn_offset_commit as k28,
)
from strom.wire.kafka.messages import (
    k68_consumer_group_heartbeat as k68,
)
from strom.wire.kafka.schema import Request
from tests.server.kafka.large_requests import (
    INDEXES,
    MANY,
    MEMBER,
    NAMES,
    acknowledge_in_first,
    add_partitions,
    codes_of,
    commit,
    committed_offsets,
    end,
    fetch,
    of_big,
    offset_delete,
    offset_fetch,
    ready_to_commit,
    run,
    share_fetch,
)
from tests.server.kafka_calls import produce_request

REQUESTS: dict[str, tuple[Callable[[], Request], int]] = {
    "list offsets": (
        lambda: of_big(
            k02_list_offsets.ListOffsetsRequest,
            k02_list_offsets.ListOffsetsTopic,
            lambda index: k02_list_offsets.ListOffsetsPartition(
                partition_index=index, timestamp=-1
            ),
            name="big",
        ),
        5,
    ),
    "fetch": (fetch, 11),
    "fetch with a new session": (lambda: fetch(session_epoch=0), 11),
    "metadata": (
        lambda: k03_metadata.MetadataRequest(
            topics=[k03_metadata.MetadataRequestTopic(name=name) for name in NAMES]
        ),
        9,
    ),
    "metadata by ids that a version does not know": (
        lambda: k03_metadata.MetadataRequest(
            topics=[k03_metadata.MetadataRequestTopic(topic_id=bytes([1]) * 16, name=None)] * MANY
        ),
        10,
    ),
    "offset fetch": (offset_fetch, 8),
    "offset fetch of one group": (
        lambda: k09_offset_fetch.OffsetFetchRequest(
            group_id="g",
            topics=[
                k09_offset_fetch.OffsetFetchRequestTopic(name="big", partition_indexes=INDEXES)
            ],
        ),
        5,
    ),
    "offset fetch of groups": (
        lambda: k09_offset_fetch.OffsetFetchRequest(
            groups=[
                k09_offset_fetch.OffsetFetchRequestGroup(group_id=name, topics=[]) for name in NAMES
            ]
        ),
        8,
    ),
    "find coordinator": (
        lambda: k10_find_coordinator.FindCoordinatorRequest(coordinator_keys=NAMES),
        4,
    ),
    "leave group": (
        lambda: k13_leave_group.LeaveGroupRequest(
            group_id="h",
            members=[k13_leave_group.MemberIdentity(member_id=name) for name in NAMES],
        ),
        3,
    ),
    "describe groups": (lambda: k15_describe_groups.DescribeGroupsRequest(groups=NAMES), 5),
    "create topics": (
        lambda: k19_create_topics.CreateTopicsRequest(
            timeout_ms=1000,
            validate_only=True,
            topics=[
                k19_create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
                for name in NAMES
            ],
        ),
        5,
    ),
    "create topics twice": (
        lambda: k19_create_topics.CreateTopicsRequest(
            timeout_ms=1000,
            topics=[
                k19_create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
                for name in 2 * NAMES
            ],
        ),
        5,
    ),
    "delete topics": (
        lambda: k20_delete_topics.DeleteTopicsRequest(topic_names=NAMES, timeout_ms=1000),
        5,
    ),
    "delete records": (
        lambda: of_big(
            k21_delete_records.DeleteRecordsRequest,
            k21_delete_records.DeleteRecordsTopic,
            lambda index: k21_delete_records.DeleteRecordsPartition(
                partition_index=index, offset=0
            ),
            name="big",
        ),
        1,
    ),
    "offset for leader epoch": (
        lambda: of_big(
            k23_offset_for_leader_epoch.OffsetForLeaderEpochRequest,
            k23_offset_for_leader_epoch.OffsetForLeaderTopic,
            lambda index: k23_offset_for_leader_epoch.OffsetForLeaderPartition(
                partition=index, leader_epoch=0
            ),
            topic="big",
        ),
        3,
    ),
    "describe configs": (
        lambda: k32_describe_configs.DescribeConfigsRequest(
            resources=[
                k32_describe_configs.DescribeConfigsResource(
                    resource_type=2, resource_name=name, configuration_keys=None
                )
                for name in NAMES
            ]
        ),
        3,
    ),
    "alter configs": (
        lambda: k33_alter_configs.AlterConfigsRequest(
            resources=[
                k33_alter_configs.AlterConfigsResource(
                    resource_type=2, resource_name=name, configs=[]
                )
                for name in NAMES
            ]
        ),
        1,
    ),
    "incremental alter configs": (
        lambda: k44_incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=[
                k44_incremental_alter_configs.AlterConfigsResource(
                    resource_type=2, resource_name=name, configs=[]
                )
                for name in NAMES
            ]
        ),
        1,
    ),
    "alter replica log dirs": (
        lambda: k34_alter_replica_log_dirs.AlterReplicaLogDirsRequest(
            dirs=[
                k34_alter_replica_log_dirs.AlterReplicaLogDir(
                    path="/",
                    topics=[
                        k34_alter_replica_log_dirs.AlterReplicaLogDirTopic(
                            name="big", partitions=INDEXES
                        )
                    ],
                )
            ]
        ),
        2,
    ),
    "describe log dirs": (lambda: k35_describe_log_dirs.DescribeLogDirsRequest(topics=None), 2),
    "create partitions": (
        lambda: k37_create_partitions.CreatePartitionsRequest(
            timeout_ms=1000,
            topics=[
                k37_create_partitions.CreatePartitionsTopic(name=name, count=2, assignments=None)
                for name in NAMES
            ],
        ),
        1,
    ),
    "delete groups": (lambda: k42_delete_groups.DeleteGroupsRequest(groups_names=NAMES), 1),
    "elect leaders": (
        lambda: k43_elect_leaders.ElectLeadersRequest(
            topic_partitions=[k43_elect_leaders.TopicPartitions(topic="big", partitions=INDEXES)]
        ),
        2,
    ),
    "elect all leaders": (
        lambda: k43_elect_leaders.ElectLeadersRequest(topic_partitions=None),
        2,
    ),
    "alter partition reassignments": (
        lambda: of_big(
            k45_alter_partition_reassignments.AlterPartitionReassignmentsRequest,
            k45_alter_partition_reassignments.ReassignableTopic,
            lambda index: k45_alter_partition_reassignments.ReassignablePartition(
                partition_index=index
            ),
            name="big",
        ),
        0,
    ),
    "offset delete": (offset_delete, 0),
    "describe quorum": (
        lambda: of_big(
            k55_describe_quorum.DescribeQuorumRequest,
            k55_describe_quorum.TopicDataRequest,
            lambda index: k55_describe_quorum.PartitionDataRequest(partition_index=index),
            topic_name="big",
        ),
        0,
    ),
    "update features": (
        lambda: k57_update_features.UpdateFeaturesRequest(
            feature_updates=[
                k57_update_features.FeatureUpdateKey(
                    feature="transaction.version", max_version_level=2
                )
            ]
            * MANY
        ),
        1,
    ),
    "describe producers": (
        lambda: k61_describe_producers.DescribeProducersRequest(
            topics=[k61_describe_producers.TopicRequest(name="big", partition_indexes=INDEXES)]
        ),
        0,
    ),
    "describe transactions": (
        lambda: k65_describe_transactions.DescribeTransactionsRequest(transactional_ids=NAMES),
        0,
    ),
    "consumer group describe": (
        lambda: k69_consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=NAMES),
        1,
    ),
    "describe topic partitions": (
        lambda: k75_describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=[k75_describe_topic_partitions.TopicRequest(name=name) for name in NAMES],
            response_partition_limit=2000,
        ),
        0,
    ),
    "describe topic partitions after an unknown cursor": (
        lambda: k75_describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=[k75_describe_topic_partitions.TopicRequest(name=name) for name in NAMES],
            cursor=k75_describe_topic_partitions.Cursor(topic_name="other", partition_index=0),
        ),
        0,
    ),
    "share group describe": (
        lambda: k77_share_group_describe.ShareGroupDescribeRequest(group_ids=NAMES),
        1,
    ),
    "describe share group offsets": (
        lambda: k90_describe_share_group_offsets.DescribeShareGroupOffsetsRequest(
            groups=[
                k90_describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(
                    group_id=name, topics=None
                )
                for name in NAMES
            ]
        ),
        1,
    ),
    "delete share group offsets": (
        lambda: k92_delete_share_group_offsets.DeleteShareGroupOffsetsRequest(
            group_id="s",
            topics=[
                k92_delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic(topic_name=name)
                for name in NAMES
            ],
        ),
        0,
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_with_many_names_is_handled_in_slices(world, name):
    make, version = REQUESTS[name]

    async def test():
        async with world() as it:
            turns, _ = await it.turns_of(make(), version)
            assert turns >= MANY

    run(test())


@pytest.mark.parametrize(
    ("name", "loops"),
    [
        ("create topics", 3),
        ("describe configs", 2),
        ("alter configs", 2),
        ("incremental alter configs", 2),
    ],
)
def test_repeated_names_are_looked_for_in_slices(world, name, loops):
    make, version = REQUESTS[name]

    async def test():
        async with world() as it:
            turns, _ = await it.turns_of(make(), version)
            assert turns >= loops * MANY

    run(test())


@pytest.mark.parametrize("acks", [-1, 0])
def test_topics_of_a_produce_request_are_looked_at_in_slices(world, monkeypatch, acks):
    at_once = 7
    monkeypatch.setattr(k00_produce, "MAX_AT_ONCE", at_once)
    made: list[None] = []
    make = k00.TopicProduceResponse

    def counting(**fields):
        made.append(None)
        return make(**fields)

    monkeypatch.setattr(k00_produce, "TopicProduceResponse", counting)
    topics = [k00.TopicProduceData(name=name, partition_data=[]) for name in NAMES]
    request = k00.ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)

    async def test():
        async with world() as it:
            before = it.turns.count
            # The first ones are looked at while the request begins.
            assert await it.largest_step(lambda: len(made), request, 9) <= at_once + 1
            assert len(made) == MANY
            looks = 1 if acks else 2  # without a response, for an error that closes the connection
            assert it.turns.count - before >= looks * MANY - at_once

    run(test())


def test_a_long_batch_and_those_after_it_are_appended_in_their_order(world, monkeypatch):
    append = Partition.append
    refused: list[None] = []

    def long_once(self, *arguments, **options):
        if not refused and (self.log.partition.topic, self.log.partition.partition) == ("big", 1):
            refused.append(None)
            raise LongValidation
        return append(self, *arguments, **options)

    monkeypatch.setattr(Partition, "append", long_once)

    async def test():
        async with world() as it:
            now_ms = it.node.broker.clock.now_ms()
            records = [("big", index, b"v") for index in (0, 1, 1, 2)]
            response = await it.handle(produce_request(now_ms, *records), 9)
            places = [
                (topic.name, one.index, one.error_code, one.base_offset)
                for topic in response.responses
                for one in topic.partition_responses
            ]
            assert refused
            assert places == [
                ("big", 0, 0, 0),
                ("big", 1, 0, 0),
                ("big", 1, 0, 1),
                ("big", 2, 0, 0),
            ]

    run(test())


def test_the_partitions_that_a_member_owns_are_read_in_slices(world, monkeypatch):
    monkeypatch.setattr(k68_consumer_group_heartbeat, "MAX_AT_ONCE", 7)

    async def test():
        async with world() as it:
            join = k68.ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id=MEMBER,
                member_epoch=0,
                rebalance_timeout_ms=1000,
                subscribed_topic_names=["big"],
                topic_partitions=[],
            )
            joined = await it.handle(join, 1)
            owned = k68.TopicPartitions(topic_id=it.topic_id, partitions=INDEXES)
            heartbeat = k68.ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id=MEMBER,
                member_epoch=joined.member_epoch,
                topic_partitions=[owned],
            )
            turns, response = await it.turns_of(heartbeat, 1)
            assert turns >= MANY
            assert response.error_code == ErrorCode.NONE

    run(test())


def test_partitions_are_added_to_a_transaction_and_verified_in_slices(world):
    async def test():
        async with world() as it:
            who = await it.begin_transaction()
            for verify_only in (False, True):
                request = add_partitions(who, verify_only=verify_only)
                turns, response = await it.turns_of(request, 4)
                assert turns >= MANY
                (result,) = response.results_by_transaction
                codes = [
                    one.partition_error_code for one in result.topic_results[0].results_by_partition
                ]
                assert codes == [0] * MANY

    run(test())


def test_the_markers_of_a_transaction_are_written_in_slices(world, monkeypatch):
    monkeypatch.setattr(markers, "MAX_AT_ONCE", 1)

    async def test():
        async with world() as it:
            who = await it.begin_transaction()
            await it.handle(add_partitions(who), 4)
            logs = [one.log for one in it.node.broker.topic("big").partitions]
            most = await it.largest_step(lambda: sum(log.end_offset for log in logs), end(who), 2)
            assert most == 1
            assert {log.end_offset for log in logs} == {1}

    run(test())


def test_markers_of_administrators_are_written_in_slices(world):
    async def test():
        async with world() as it:
            topic = k27_write_txn_markers.WritableTxnMarkerTopic(
                name="unknown", partition_indexes=INDEXES
            )
            marker = k27_write_txn_markers.WritableTxnMarker(
                producer_id=1, producer_epoch=0, transaction_result=True, topics=[topic]
            )
            request = k27_write_txn_markers.WriteTxnMarkersRequest(markers=[marker])
            turns, _ = await it.turns_of(request, 1)
            assert turns >= MANY

    run(test())


def test_offsets_in_a_transaction_are_committed_in_slices_and_take_effect_together(
    world, monkeypatch
):
    monkeypatch.setattr(k28_txn_offset_commit, "MAX_AT_ONCE", 7)

    async def test():
        async with world() as it:
            who = await ready_to_commit(it)
            turns, response = await it.turns_of(commit(k28, transactional_id="t", **who), 3)
            assert turns >= MANY
            assert codes_of(response) == {0}
            assert await committed_offsets(it) == [-1] * MANY
            await it.handle(end(who), 2)
            assert await committed_offsets(it) == [0] * MANY

    run(test())


def test_offsets_are_deleted_in_batches(world, monkeypatch):
    monkeypatch.setattr(k47_offset_delete, "MAX_AT_ONCE", 7)

    async def test():
        async with world() as it:
            await it.handle(commit(k08_offset_commit), 6)
            turns, response = await it.turns_of(offset_delete(), 0)
            assert turns >= MANY / 7
            assert codes_of(response) == {0}
            assert await committed_offsets(it) == [-1] * MANY

    run(test())


def test_the_error_of_a_group_refuses_the_deletion_of_many_offsets(world):
    async def test():
        async with world() as it:
            response = await it.handle(offset_delete(), 0)
            assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
            assert response.topics == []

    run(test())


def test_topics_without_partitions_in_a_commit_are_handled_in_slices(world):
    async def test():
        async with world() as it:
            topic = k08_offset_commit.OffsetCommitRequestTopic(name="big", partitions=[])
            request = k08_offset_commit.OffsetCommitRequest(group_id="g", topics=[topic] * 1000)
            turns, _ = await it.turns_of(request, 6)
            assert turns >= 1000 / 100

    run(test())


def test_a_topic_is_deleted_in_slices(world):
    async def test():
        async with world() as it:
            request = k20_delete_topics.DeleteTopicsRequest(topic_names=["big"], timeout_ms=1000)
            directory = it.node.broker.directory
            names = [TopicPartition("big", index) for index in INDEXES]

            def deleted():
                return sum(not directory.has_log(name) for name in names)

            assert await it.largest_step(deleted, request, 5) == 1
            assert deleted() == MANY

    run(test())


def test_share_partitions_are_read_and_acknowledged_in_slices(world):
    async def test():
        async with world() as it:
            await it.open_share_session()
            records = [("big", index, b"v") for index in INDEXES]
            now_ms = it.node.broker.clock.now_ms()
            await it.handle(produce_request(now_ms, *records), 9)
            turns, fetched = await it.turns_of(share_fetch(it, epoch=1), 2)
            assert turns >= MANY
            (topic,) = fetched.responses
            assert len(topic.partitions) == MANY
            assert all(one.acquired_records for one in topic.partitions)
            batch = k78_share_fetch.AcknowledgementBatch(
                first_offset=0, last_offset=0, acknowledge_types=[1]
            )
            partitions = [
                k79_share_acknowledge.AcknowledgePartition(
                    partition_index=index, acknowledgement_batches=[batch]
                )
                for index in INDEXES
            ]
            request = k79_share_acknowledge.ShareAcknowledgeRequest(
                group_id="s",
                member_id=MEMBER,
                share_session_epoch=2,
                topics=[
                    k79_share_acknowledge.AcknowledgeTopic(
                        topic_id=it.topic_id, partitions=partitions
                    )
                ],
            )
            turns, response = await it.turns_of(request, 2)
            assert turns >= MANY
            (topic,) = response.responses
            assert [one.error_code for one in topic.partitions] == [0] * MANY

    run(test())


@pytest.mark.parametrize("fetches", [False, True])
def test_acknowledgements_of_one_partition_are_validated_in_slices_and_applied_at_once(
    world, monkeypatch, fetches
):
    monkeypatch.setattr(share_acknowledging, "MAX_BATCHES_AT_ONCE", 7)

    async def test():
        async with world() as it:
            await it.open_share_session()
            now_ms = it.node.broker.clock.now_ms()
            await it.handle(produce_request(now_ms, *[("big", 0, b"v")] * MANY), 9)
            await it.handle(share_fetch(it, epoch=1), 2)
            state = it.services.shares.partition("s", it.topic_id, 0).shared.partition
            assert state.end_offset == MANY
            batches = [
                k78_share_fetch.AcknowledgementBatch(
                    first_offset=offset, last_offset=offset, acknowledge_types=[1]
                )
                for offset in INDEXES
            ]
            request = acknowledge_in_first(it, batches, epoch=2, fetches=fetches)
            before = it.turns.count
            assert await it.largest_step(lambda: state.start_offset, request, 2) == MANY
            assert it.turns.count - before >= MANY

    run(test())


def test_the_start_of_share_groups_is_moved_in_slices(world):
    async def test():
        async with world() as it:
            await it.open_share_session()  # creates the topic of the state
            moved = [
                k91_alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(
                    partition_index=index, start_offset=0
                )
                for index in INDEXES
            ]
            topic = k91_alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic(
                topic_name="big", partitions=moved
            )
            request = k91_alter_share_group_offsets.AlterShareGroupOffsetsRequest(
                group_id="n", topics=[topic]
            )
            state_log = it.services.shares.state_log
            assert await it.largest_step(lambda: state_log.record_count, request, 0) == 1

    run(test())


def test_a_share_fetch_looks_at_few_partitions_in_one_turn(world, monkeypatch):
    looks: list[None] = []
    partition = ShareGroups.partition

    def counting(*arguments):
        looks.append(None)
        return partition(*arguments)

    monkeypatch.setattr(ShareGroups, "partition", counting)

    async def test():
        async with world() as it:
            await it.open_share_session()
            assert await it.largest_step(lambda: len(looks), share_fetch(it, epoch=1), 2) <= 2

    run(test())
