"""UpdateFeatures (57): change the levels of features of the cluster (KIP-584)."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class FeatureUpdateKey(Struct):
    feature: str = fields.string()
    max_version_level: int = fields.int16()
    """The new level; 0 disables the feature."""
    allow_downgrade: bool = fields.boolean("0")
    upgrade_type: int = fields.int8("1+", default=1)
    """1: upgrade only; 2: downgrade without loss; 3: any downgrade."""


class UpdateFeaturesRequest(Request, api_key=57, versions="0-2", flexible="0+"):
    timeout_ms: int = fields.int32(default=60_000)
    feature_updates: list[FeatureUpdateKey] = fields.array(FeatureUpdateKey)
    validate_only: bool = fields.boolean("1+")


class UpdatableFeatureResult(Struct):
    feature: str = fields.string()
    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+")


class UpdateFeaturesResponse(Response, api_key=57, versions="0-2", flexible="0+"):
    throttle_time_ms: int = fields.int32()
    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+")
    results: list[UpdatableFeatureResult] = fields.array(
        UpdatableFeatureResult, "0-1", ignorable=True
    )
