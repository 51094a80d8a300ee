"""EndTxn (26): commit or abort a transaction."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response


class EndTxnRequest(Request, api_key=26, versions="0-5", flexible="3+"):
    transactional_id: str = fields.string()
    producer_id: int = fields.int64()
    producer_epoch: int = fields.int16()
    committed: bool = fields.boolean()
    """True to commit, False to abort."""


class EndTxnResponse(Response, api_key=26, versions="0-5", flexible="3+"):
    """Since version 5 with the producer id and epoch of the next transaction (KIP-890)."""

    throttle_time_ms: int = fields.int32()
    error_code: int = fields.int16()
    producer_id: int = fields.int64("5+", default=-1, ignorable=True)
    producer_epoch: int = fields.int16("5+", default=-1, ignorable=True)
