"""ListTransactions (66)."""

from strom.wire.kafka.fields import (
    array,
    int16,
    int32,
    int64,
    int64_array,
    string,
    string_array,
)
from strom.wire.kafka.schema import Request, Response, Struct


class ListTransactionsRequest(Request, api_key=66, versions="0-2", flexible="0+"):
    state_filters: list[str] = string_array()
    producer_id_filters: list[int] = int64_array()
    duration_filter: int = int64("1+", default=-1)
    """Only transactions open for longer than this many ms; negative for all (KIP-994)."""
    transactional_id_pattern: str | None = string("2+", nullable="0+", default=None)


class TransactionState(Struct):
    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


class ListTransactionsResponse(Response, api_key=66, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = string_array()
    transaction_states: list[TransactionState] = array(TransactionState)
