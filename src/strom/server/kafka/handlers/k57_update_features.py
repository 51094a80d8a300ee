"""UpdateFeatures, api key 57: change the levels of features.

Every feature is at its highest level and stays there: strom has no older behaviour to return to. So an
update to the current level succeeds, and others are refused. As in Kafka, either all updates of a request
are applied or none.
"""

from strom.model.errors import ApiError, ErrorCode
from strom.model.features import FEATURES
from strom.model.steps import Steps
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k57_update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE_TYPES = (1, 2, 3)
_BY_NAME = {feature.name: feature for feature in FEATURES}


@handler(UpdateFeaturesRequest, Needs(Operation.ALTER, Resource.CLUSTER))
def update_features(
    request: UpdateFeaturesRequest, _context: Context
) -> Steps[UpdateFeaturesResponse]:
    response = UpdateFeaturesResponse(error_message=None)
    try:
        for update in request.feature_updates:
            _check(update)
            result = UpdatableFeatureResult(feature=update.feature, error_message=None)
            response.results.append(result)
            yield None
    except ApiError as error:
        return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)
    return response


def _check(update: FeatureUpdateKey) -> None:
    name, level = update.feature, update.max_version_level
    found = _BY_NAME.get(name)
    if found is None:
        reason = f"Feature {name} is unknown. Known features: {', '.join(_BY_NAME)}."
    elif not found.first_level <= level <= found.last_level:
        reason = f"{name} supports levels {found.first_level} to {found.last_level}, not {level}."
    elif update.upgrade_type not in UPGRADE_TYPES:
        reason = f"Upgrade type {update.upgrade_type} is unknown: use 1, 2 or 3."
    elif level != found.level:
        reason = f"{name} is at level {found.level} and cannot be downgraded."
    else:
        return
    raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, f"No feature was updated. {reason}")
