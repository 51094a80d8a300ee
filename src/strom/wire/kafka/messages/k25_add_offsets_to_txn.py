"""AddOffsetsToTxn (25): add the offsets of a group to a transaction."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response


class AddOffsetsToTxnRequest(Request, api_key=25, versions="0-4", flexible="3+"):
    transactional_id: str = fields.string()
    producer_id: int = fields.int64()
    producer_epoch: int = fields.int16()
    group_id: str = fields.string()


class AddOffsetsToTxnResponse(Response, api_key=25, versions="0-4", flexible="3+"):
    throttle_time_ms: int = fields.int32()
    error_code: int = fields.int16()
