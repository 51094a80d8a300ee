"""PushTelemetry, api key 72: the metrics of a client, if telemetry is enabled (KIP-714)."""

from strom.broker.client_telemetry import TelemetryClient
from strom.model.errors import ApiError, ErrorCode
from strom.server.kafka.api import Context, Outcome, handler
from strom.wire.kafka.messages.k72_push_telemetry import (
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from strom.wire.kafka.schema import NO_UUID


@handler(PushTelemetryRequest)
def push_telemetry(request: PushTelemetryRequest, context: Context) -> Outcome:
    telemetry = context.services.telemetry
    if telemetry is None:
        return PushTelemetryResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if request.client_instance_id == NO_UUID:
        return PushTelemetryResponse(error_code=ErrorCode.INVALID_REQUEST)
    try:
        telemetry.push(
            TelemetryClient(request.client_instance_id, context.client_id or "", context.peer),
            request.subscription_id,
            request.compression_type,
            request.metrics,
            is_terminating=request.terminating,
            now_ms=context.broker.clock.now_ms(),
        )
    except ApiError as error:
        return PushTelemetryResponse(error_code=error.code)
    return PushTelemetryResponse()
