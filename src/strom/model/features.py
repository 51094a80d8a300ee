"""The feature levels of the cluster, as in Kafka's ApiVersions (KIP-584)."""

from typing import NamedTuple


class Feature(NamedTuple):
    """A feature with its supported levels, and the enabled one."""

    name: str
    first_level: int
    last_level: int
    level: int


FEATURES: tuple[Feature, ...] = (
    Feature("group.version", 0, 1, 1),  # 1: consumer groups, KIP-848
    Feature("share.version", 0, 1, 1),  # 1: share groups, KIP-932
    Feature("transaction.version", 0, 2, 2),  # 2: an epoch bump after every transaction, KIP-890
)
FEATURES_EPOCH = 0
"""Bumped by every change of a level; there has been none."""
