"""InitProducerId (22): an id and epoch for an idempotent or transactional producer."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response


class InitProducerIdRequest(Request, api_key=22, versions="0-6", stable="0-5", flexible="2+"):
    """Requests a producer id, or a new epoch for the one that the producer has (KIP-360)."""

    transactional_id: str | None = fields.string(nullable="0+")
    """None for a producer that is only idempotent."""
    transaction_timeout_ms: int = fields.int32()
    producer_id: int = fields.int64("3+", default=-1)
    producer_epoch: int = fields.int16("3+", default=-1)
    enable2_pc: bool = fields.boolean("6+")
    keep_prepared_txn: bool = fields.boolean("6+")


class InitProducerIdResponse(Response, api_key=22, versions="0-6", stable="0-5", flexible="2+"):
    throttle_time_ms: int = fields.int32()
    error_code: int = fields.int16()
    producer_id: int = fields.int64(default=-1)
    producer_epoch: int = fields.int16()
    ongoing_txn_producer_id: int = fields.int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = fields.int16("6+", default=-1)
