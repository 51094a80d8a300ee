"""What a cluster can do beyond the versions of single requests, as Kafka's ApiVersions tells it."""

from typing import NamedTuple


class Feature(NamedTuple):
    """A feature with the levels a broker could run, and the one that it runs."""

    name: str
    first_level: int
    last_level: int
    level: int


FEATURES: tuple[Feature, ...] = (
    Feature("share.version", 0, 1, 1),  # 1: share groups, KIP-932
    Feature("transaction.version", 0, 2, 2),  # 2: a new epoch after every transaction, KIP-890
)
FEATURES_EPOCH = 0
"""Grows with every change of a level; there has been none."""
