"""ListTransactions (66)."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class ListTransactionsRequest(Request, api_key=66, versions="0-2", flexible="0+"):
    state_filters: list[str] = fields.array(fields.STRING)
    producer_id_filters: list[int] = fields.array(fields.INT64)
    duration_filter: int = fields.int64("1+", default=-1)
    """Only transactions open for longer than this many ms; negative for all (KIP-994)."""
    transactional_id_pattern: str | None = fields.string("2+", nullable="0+", default=None)


class TransactionState(Struct):
    transactional_id: str = fields.string()
    producer_id: int = fields.int64()
    transaction_state: str = fields.string()


class ListTransactionsResponse(Response, api_key=66, versions="0-2", flexible="0+"):
    throttle_time_ms: int = fields.int32()
    error_code: int = fields.int16()
    unknown_state_filters: list[str] = fields.array(fields.STRING)
    transaction_states: list[TransactionState] = fields.array(TransactionState)
