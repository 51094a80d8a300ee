"""EndTxn (26): commit or abort a transaction."""

from strom.wire.kafka.fields import (
    boolean,
    int16,
    int32,
    int64,
    string,
)
from strom.wire.kafka.schema import Request, Response


class EndTxnRequest(Request, api_key=26, versions="0-5", flexible="3+"):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()
    """True to commit, False to abort."""


class EndTxnResponse(Response, api_key=26, versions="0-5", flexible="3+"):
    """Since version 5 with the producer id and epoch of the next transaction (KIP-890)."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64("5+", default=-1, ignorable=True)
    producer_epoch: int = int16("5+", default=-1, ignorable=True)
