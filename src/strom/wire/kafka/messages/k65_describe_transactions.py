"""DescribeTransactions (65): the state of transactions."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class DescribeTransactionsRequest(Request, api_key=65, versions="0", flexible="0+"):
    transactional_ids: list[str] = fields.array(fields.STRING)


class TopicData(Struct):
    topic: str = fields.string()
    partitions: list[int] = fields.array(fields.INT32)


class TransactionState(Struct):
    error_code: int = fields.int16()
    transactional_id: str = fields.string()
    transaction_state: str = fields.string()
    transaction_timeout_ms: int = fields.int32()
    transaction_start_time_ms: int = fields.int64()
    producer_id: int = fields.int64()
    producer_epoch: int = fields.int16()
    topics: list[TopicData] = fields.array(TopicData)


class DescribeTransactionsResponse(Response, api_key=65, versions="0", flexible="0+"):
    throttle_time_ms: int = fields.int32()
    transaction_states: list[TransactionState] = fields.array(TransactionState)
