"""DescribeTransactions, api key 65: the state of transactions."""

from strom.coordination.transactions.records import TransactionMetadata
from strom.model.errors import ApiError, ErrorCode
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k65_describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


@handler(DescribeTransactionsRequest, Needs(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID))
async def describe_transactions(
    request: DescribeTransactionsRequest, context: Context
) -> DescribeTransactionsResponse:
    # As in Kafka, the response repeats a transaction that the request repeats.
    described: dict[str, TransactionState] = {}
    pause = context.long_work.pauses()
    for name in request.transactional_ids:
        await pause()
        if name not in described:
            described[name] = _describe(name, context)
    states = [described[name] for name in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=states)


def _describe(name: str, context: Context) -> TransactionState:
    try:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        context.transactions.topic.partition_of(name)  # NOT_COORDINATOR unless it is served
    except ApiError as error:
        return TransactionState(transactional_id=name, error_code=error.code)
    known = context.transactions.look().find(name)
    if known is None:
        code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return TransactionState(transactional_id=name, error_code=code)
    return TransactionState(
        transactional_id=name,
        transaction_state=known.state.value,
        transaction_timeout_ms=known.timeout_ms,
        transaction_start_time_ms=known.started_ms,
        producer_id=known.producer_id,
        producer_epoch=known.epoch,
        topics=_topics(known),
    )


def _topics(known: TransactionMetadata) -> list[TopicData]:
    topics: dict[str, TopicData] = {}
    for name, index in sorted(known.partitions):
        topics.setdefault(name, TopicData(topic=name)).partitions.append(index)
    return list(topics.values())
