"""ApiVersions, api key 18: the supported requests, from the registered handlers.

Behaviour: the response to an unsupported version has version 0 and UNSUPPORTED_VERSION, so that the
client can downgrade (KIP-511). Produce is listed from version 0 on, as in Kafka: some clients check for
that before they use newer versions, though none of them sends it. Clients of version 3 cannot decode
features whose first level is 0, so they get only the others.
"""

import re
from functools import partial

from strom.model.errors import ErrorCode
from strom.model.features import FEATURES, FEATURES_EPOCH
from strom.server.kafka.api import HANDLERS, Context, Outcome, handler
from strom.wire.kafka.messages.k00_produce import ProduceRequest
from strom.wire.kafka.messages.k18_api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from strom.wire.kafka.messages.k71_get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
)
from strom.wire.kafka.messages.k72_push_telemetry import PushTelemetryRequest

TELEMETRY = frozenset(
    {GetTelemetrySubscriptionsRequest.SCHEMA.api_key, PushTelemetryRequest.SCHEMA.api_key}
)
"""As in Kafka, clients do not see these requests unless their metrics are wanted."""
FIRST_VERSION_WITH_SOFTWARE = 3
FIRST_VERSION_WITH_LEVEL_0 = 4
_LEGAL_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


@handler(ApiVersionsRequest)
def api_versions(request: ApiVersionsRequest, context: Context) -> Outcome:
    if context.version >= FIRST_VERSION_WITH_SOFTWARE and not (
        _LEGAL_SOFTWARE.fullmatch(request.client_software_name)
        and _LEGAL_SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    telemetry, hidden = context.services.telemetry, TELEMETRY
    if telemetry is not None:
        hidden = frozenset()
        telemetry.connected(
            context.peer, request.client_software_name, request.client_software_version
        )
        context.on_close.add(TELEMETRY, partial(telemetry.disconnected, context.peer))
    return ApiVersionsResponse(
        api_keys=[_offer(key) for key in sorted(HANDLERS) if key not in hidden],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=first, max_version=last)
            for name, first, last, _ in FEATURES
            if first or context.version >= FIRST_VERSION_WITH_LEVEL_0
        ],
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, _, _, level in FEATURES
        ],
    )


def unsupported_version() -> ApiVersionsResponse:
    """The response to an unsupported version."""
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[_offer(ApiVersionsRequest.SCHEMA.api_key)],
    )


def _offer(key: int) -> ApiVersion:
    first, last = HANDLERS[key].versions
    if key == ProduceRequest.SCHEMA.api_key:
        first = 0
    return ApiVersion(api_key=key, min_version=first, max_version=last)
