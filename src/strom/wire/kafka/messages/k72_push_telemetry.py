"""PushTelemetry (72): a client's metrics, in OpenTelemetry's format (KIP-714)."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Uuid


class PushTelemetryRequest(Request, api_key=72, versions="0", flexible="0+"):
    client_instance_id: Uuid = fields.uuid()
    subscription_id: int = fields.int32()
    terminating: bool = fields.boolean()
    compression_type: int = fields.int8()
    metrics: bytes = fields.blob()
    """A MetricsData message, see `client_metrics.py`."""


class PushTelemetryResponse(Response, api_key=72, versions="0", flexible="0+"):
    throttle_time_ms: int = fields.int32()
    error_code: int = fields.int16()
