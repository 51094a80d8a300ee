"""ApiVersions (18): the requests and versions that a broker supports."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response, Struct


class ApiVersionsRequest(Request, api_key=18, versions="0-4", flexible="3+"):
    """The first request on a connection; clients give their name and version here (KIP-511)."""

    client_software_name: str = fields.string("3+", ignorable=True)
    client_software_version: str = fields.string("3+", ignorable=True)


class ApiVersion(Struct):
    api_key: int = fields.int16()
    min_version: int = fields.int16()
    max_version: int = fields.int16()


class SupportedFeatureKey(Struct):
    """The levels of a feature that the broker supports."""

    name: str = fields.string()
    min_version: int = fields.int16()
    max_version: int = fields.int16()


class FinalizedFeatureKey(Struct):
    """The level of a feature that is enabled in the cluster (KIP-584)."""

    name: str = fields.string()
    max_version_level: int = fields.int16()
    min_version_level: int = fields.int16()


class ApiVersionsResponse(Response, api_key=18, versions="0-4", flexible="3+"):
    """The supported requests. Its response header is always version 0, see `header.py`."""

    error_code: int = fields.int16()
    api_keys: list[ApiVersion] = fields.array(ApiVersion)
    throttle_time_ms: int = fields.int32("1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = fields.array(
        SupportedFeatureKey, "3+", ignorable=True, tag=0
    )
    finalized_features_epoch: int = fields.int64("3+", default=-1, ignorable=True, tag=1)
    finalized_features: list[FinalizedFeatureKey] = fields.array(
        FinalizedFeatureKey, "3+", ignorable=True, tag=2
    )
    zk_migration_ready: bool = fields.boolean("3+", ignorable=True, tag=3)
