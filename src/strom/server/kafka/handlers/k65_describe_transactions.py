"""DescribeTransactions, api key 65: the state of transactions."""

from strom.coordination.transactions.records import TransactionMetadata
from strom.model.errors import ApiError, ErrorCode
from strom.model.steps import Steps
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k65_describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


@handler(DescribeTransactionsRequest, Needs(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID))
def describe_transactions(
    request: DescribeTransactionsRequest, context: Context
) -> Steps[DescribeTransactionsResponse]:
    response = DescribeTransactionsResponse()
    for name in request.transactional_ids:
        response.transaction_states.append(_describe(name, context))
        yield None
    return response


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
