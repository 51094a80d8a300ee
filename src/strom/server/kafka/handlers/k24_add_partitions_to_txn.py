"""AddPartitionsToTxn, api key 24: register the partitions that a transaction writes to.

Behaviour: all or nothing; if one partition does not exist, the others are not attempted. The response
waits until it is durable. Versions: 2 PRODUCER_FENCED, 4 several transactions, optionally only verified
(between brokers, KIP-890). Internal topics cannot be added.
"""

from collections.abc import Iterable

from strom.coordination.transactions.commands import AddPartitions
from strom.model.errors import ApiError, ErrorCode
from strom.model.topics import TopicPartition, is_internal
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler, known_fencing
from strom.wire.kafka.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

FIRST_VERSION_WITH_FENCED = 2
FIRST_VERSION_WITH_MANY = 4

Codes = dict[TopicPartition, ErrorCode]


@handler(
    AddPartitionsToTxnRequest,
    Needs(Operation.WRITE, Resource.TRANSACTIONAL_ID),
    Needs(Operation.WRITE, Resource.TOPIC),
)
async def add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, context: Context
) -> AddPartitionsToTxnResponse:
    if context.version >= FIRST_VERSION_WITH_MANY:
        response = AddPartitionsToTxnResponse()
        pause = context.long_work.pauses()
        for one in request.transactions:
            await pause()
            codes = await _codes(one, context)
            response.results_by_transaction.append(
                AddPartitionsToTxnResult(
                    transactional_id=one.transactional_id,
                    topic_results=await _results(one.topics, codes, context),
                )
            )
        return response
    only = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    codes = await _codes(only, context)
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=await _results(only.topics, codes, context)
    )


async def _codes(wanted: AddPartitionsToTxnTransaction, context: Context) -> Codes:
    partitions = []
    problems: Codes = {}
    pause = context.long_work.pauses()
    for topic in wanted.topics:
        for index in topic.partitions:
            await pause()
            partition = TopicPartition(topic.name, index)
            partitions.append(partition)
            if code := _problem(partition, context):
                problems[partition] = code
    if problems:
        return {one: problems.get(one, ErrorCode.OPERATION_NOT_ATTEMPTED) for one in partitions}
    if wanted.verify_only:
        codes = {}
        for partition in partitions:
            await pause()
            codes[partition] = _verify(wanted, partition, context)
        return codes
    answer = await context.transactions.submit(
        AddPartitions(
            transactional_id=wanted.transactional_id,
            producer_id=wanted.producer_id,
            epoch=wanted.producer_epoch,
            partitions=frozenset(partitions),
        )
    )
    code = known_fencing(answer.code, context, FIRST_VERSION_WITH_FENCED)
    return dict.fromkeys(partitions, code)


def _verify(
    wanted: AddPartitionsToTxnTransaction, partition: TopicPartition, context: Context
) -> ErrorCode:
    name = wanted.transactional_id
    try:
        if not name:
            return ErrorCode.INVALID_REQUEST
        context.transactions.topic.partition_of(name)  # NOT_COORDINATOR unless it is served
    except ApiError as error:
        return error.code
    return context.transactions.look().check_part_of(
        name, wanted.producer_id, wanted.producer_epoch, partition
    )


def _problem(partition: TopicPartition, context: Context) -> ErrorCode:
    if is_internal(partition.topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    hosted = context.broker.find_topic(partition.topic)
    if hosted is None or not 0 <= partition.partition < len(hosted.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


async def _results(
    topics: Iterable[AddPartitionsToTxnTopic], codes: Codes, context: Context
) -> list[AddPartitionsToTxnTopicResult]:
    results = []
    pause = context.long_work.pauses()
    for topic in topics:
        result = AddPartitionsToTxnTopicResult(name=topic.name)
        results.append(result)
        for index in topic.partitions:
            await pause()
            result.results_by_partition.append(
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=codes[TopicPartition(topic.name, index)],
                )
            )
    return results
