"""Names of topics and partitions, and the rules for them."""

import re
from typing import NamedTuple

from strom.model.errors import ApiError, ErrorCode

MAX_TOPIC_NAME_LENGTH = 249
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")

METADATA_TOPIC = "__cluster_metadata"
"""Holds what the cluster knows of itself; no client sees it."""
CONSUMER_OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC})


class TopicPartition(NamedTuple):
    """One partition of one topic; printed as Kafka prints it, `clicks-0`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def check_topic_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION, with the reason, unless `name` is a legal topic name."""
    problem = _name_problem(name)
    if problem:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name {name!r} {problem}.")


def _name_problem(name: str) -> str | None:
    if not name:
        return "is empty"
    if name in {".", ".."}:
        return "cannot be '.' or '..'"
    if len(name) > MAX_TOPIC_NAME_LENGTH:
        return f"is longer than {MAX_TOPIC_NAME_LENGTH} characters"
    if not _LEGAL_NAME.fullmatch(name):
        return "may only hold ASCII letters, digits, '.', '_' and '-'"
    return None


def collision_key(name: str) -> str:
    """Names with the same key differ only in '.' and '_', and Kafka refuses to have both."""
    return name.replace(".", "_")
