"""WriteTxnMarkers (27): write commit and abort markers to partitions."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class WritableTxnMarkerTopic(Struct):
    name: str = fields.string()
    partition_indexes: list[int] = fields.array(fields.INT32)


class WritableTxnMarker(Struct):
    producer_id: int = fields.int64()
    producer_epoch: int = fields.int16()
    transaction_result: bool = fields.boolean()
    """True to commit, False to abort."""
    topics: list[WritableTxnMarkerTopic] = fields.array(WritableTxnMarkerTopic)
    coordinator_epoch: int = fields.int32()
    transaction_version: int = fields.int8("2+", ignorable=True)


class WriteTxnMarkersRequest(Request, api_key=27, versions="1-2", flexible="1+"):
    """The markers to write; `kafka-transactions abort` ends hanging transactions with it (KIP-664)."""

    markers: list[WritableTxnMarker] = fields.array(WritableTxnMarker)


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = fields.int32()
    error_code: int = fields.int16()


class WritableTxnMarkerTopicResult(Struct):
    name: str = fields.string()
    partitions: list[WritableTxnMarkerPartitionResult] = fields.array(
        WritableTxnMarkerPartitionResult
    )


class WritableTxnMarkerResult(Struct):
    producer_id: int = fields.int64()
    topics: list[WritableTxnMarkerTopicResult] = fields.array(WritableTxnMarkerTopicResult)


class WriteTxnMarkersResponse(Response, api_key=27, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarkerResult] = fields.array(WritableTxnMarkerResult)
