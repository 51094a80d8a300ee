"""GetTelemetrySubscriptions (71): which metrics a client is to push, and how often (KIP-714)."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Uuid


class GetTelemetrySubscriptionsRequest(Request, api_key=71, versions="0", flexible="0+"):
    client_instance_id: Uuid = fields.uuid()
    """Zero in a client's first request."""


class GetTelemetrySubscriptionsResponse(Response, api_key=71, versions="0", flexible="0+"):
    throttle_time_ms: int = fields.int32()
    error_code: int = fields.int16()
    client_instance_id: Uuid = fields.uuid()
    subscription_id: int = fields.int32()
    accepted_compression_types: list[int] = fields.array(fields.INT8)
    push_interval_ms: int = fields.int32()
    telemetry_max_bytes: int = fields.int32()
    delta_temporality: bool = fields.boolean()
    """Whether counters are pushed as differences to the last push."""
    requested_metrics: list[str] = fields.array(fields.STRING)
    """Prefixes of names; none for no metrics, `*` for all."""
