"""AddPartitionsToTxn (24): register the partitions that a transaction writes to."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class AddPartitionsToTxnTopic(Struct):
    name: str = fields.string()
    partitions: list[int] = fields.array(fields.INT32)


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = fields.string()
    producer_id: int = fields.int64()
    producer_epoch: int = fields.int16()
    verify_only: bool = fields.boolean()
    """Only check that the partitions are part of the transaction already."""
    topics: list[AddPartitionsToTxnTopic] = fields.array(AddPartitionsToTxnTopic)


class AddPartitionsToTxnRequest(Request, api_key=24, versions="0-5", flexible="3+"):
    """The partitions to add; versions 4 and up are for brokers only (KIP-890)."""

    transactions: list[AddPartitionsToTxnTransaction] = fields.array(
        AddPartitionsToTxnTransaction, "4+"
    )
    v3_and_below_transactional_id: str = fields.string("0-3")
    v3_and_below_producer_id: int = fields.int64("0-3")
    v3_and_below_producer_epoch: int = fields.int16("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = fields.array(
        AddPartitionsToTxnTopic, "0-3"
    )


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = fields.int32()
    partition_error_code: int = fields.int16()


class AddPartitionsToTxnTopicResult(Struct):
    name: str = fields.string()
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = fields.array(
        AddPartitionsToTxnPartitionResult
    )


class AddPartitionsToTxnResult(Struct):
    transactional_id: str = fields.string()
    topic_results: list[AddPartitionsToTxnTopicResult] = fields.array(AddPartitionsToTxnTopicResult)


class AddPartitionsToTxnResponse(Response, api_key=24, versions="0-5", flexible="3+"):
    throttle_time_ms: int = fields.int32()
    error_code: int = fields.int16("4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = fields.array(
        AddPartitionsToTxnResult, "4+"
    )
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = fields.array(
        AddPartitionsToTxnTopicResult, "0-3"
    )
