"""GetTelemetrySubscriptions, api key 71: what a client is to push, if telemetry is enabled (KIP-714).

Counters are asked for as totals, not as differences, so that a push that is lost distorts nothing.
"""

import uuid

from strom.broker.client_telemetry import ACCEPTED_CODECS, TelemetryClient
from strom.model.errors import ApiError, ErrorCode
from strom.server.kafka.api import Context, Outcome, handler
from strom.wire.kafka.messages.k71_get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from strom.wire.kafka.schema import NO_UUID


@handler(GetTelemetrySubscriptionsRequest)
def get_telemetry_subscriptions(
    request: GetTelemetrySubscriptionsRequest, context: Context
) -> Outcome:
    telemetry = context.services.telemetry
    if telemetry is None:
        return GetTelemetrySubscriptionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    instance = request.client_instance_id
    if instance == NO_UUID:
        instance = uuid.uuid4().bytes
    client = TelemetryClient(instance, context.client_id or "", context.peer)
    try:
        found = telemetry.subscribe(client, context.broker.clock.now_ms())
    except ApiError as error:
        return GetTelemetrySubscriptionsResponse(error_code=error.code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance,
        subscription_id=found.id,
        accepted_compression_types=[int(codec) for codec in ACCEPTED_CODECS],
        push_interval_ms=found.interval_ms,
        telemetry_max_bytes=telemetry.max_bytes,
        delta_temporality=False,
        requested_metrics=found.metrics,
    )
