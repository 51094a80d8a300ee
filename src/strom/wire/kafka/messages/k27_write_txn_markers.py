"""WriteTxnMarkers (27): tell partitions how transactions ended."""

from strom.wire.kafka.fields import (
    array,
    boolean,
    int8,
    int16,
    int32,
    int32_array,
    int64,
    string,
)
from strom.wire.kafka.schema import Request, Response, Struct


class WritableTxnMarkerTopic(Struct):
    """Partitions of one topic."""

    name: str = string()
    partition_indexes: list[int] = int32_array()


class WritableTxnMarker(Struct):
    """One transaction and how it ended."""

    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    """True if it was committed."""
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8("2+", ignorable=True)


class WriteTxnMarkersRequest(Request, api_key=27, versions="1-2", flexible="1+"):
    """Write these markers; operators send it to end a transaction that hangs."""

    markers: list[WritableTxnMarker] = array(WritableTxnMarker)


class WritableTxnMarkerPartitionResult(Struct):
    """Whether one marker was written."""

    partition_index: int = int32()
    error_code: int = int16()


class WritableTxnMarkerTopicResult(Struct):
    """Whether the markers of one topic were written."""

    name: str = string()
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


class WritableTxnMarkerResult(Struct):
    """Whether the markers of one producer were written."""

    producer_id: int = int64()
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


class WriteTxnMarkersResponse(Response, api_key=27, versions="1-2", flexible="1+"):
    """Whether the markers were written."""

    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)
