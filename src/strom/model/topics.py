"""Names of topics and partitions, and the rules for them."""

import re
from typing import NamedTuple

from strom.model.errors import ApiError, ErrorCode

MAX_TOPIC_NAME_LENGTH = 249
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")

METADATA_TOPIC = "__cluster_metadata"
"""The cluster metadata log; hidden from clients."""
CONSUMER_OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC})
QUEUE_TOPIC_PREFIX = "__queue."
"""The log of every message queue is a topic with such a name."""
QUEUE_TOPOLOGY_TOPIC = "__queue_topology"
"""Exchanges, queues and bindings; the prefix is another, so no queue has this name."""


def is_internal(name: str) -> bool:
    """Whether a topic is internal: readable by clients, written by the broker only."""
    return name in INTERNAL_TOPICS or is_of_queues(name)


def holds_state(name: str) -> bool:
    """Whether a topic holds state of the broker, which a missing record would falsify."""
    return name == METADATA_TOPIC or is_internal(name)


def is_of_queues(name: str) -> bool:
    """Whether a topic belongs to message queues."""
    return name.startswith(QUEUE_TOPIC_PREFIX) or name == QUEUE_TOPOLOGY_TOPIC


def reject_topic_of_queues(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION for the log of a message queue, which Kafka clients only read.

    Any other change (a record, a trimmed log, another retention) would lose confirmed messages.
    """
    if is_of_queues(name):
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic {name!r} is the log of a message queue: Kafka clients can only read it. Use a "
            "queue client or `strom queues` to change the queue.",
        )


def is_reserved_for_queues(name: str) -> bool:
    """Whether a topic of that name could collide with the log of a queue."""
    return collision_key(name).startswith(collision_key(QUEUE_TOPIC_PREFIX))


def reject_name_of_queues(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION for a new topic with a name that is reserved for message queues."""
    if is_reserved_for_queues(name):
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic names that begin with {QUEUE_TOPIC_PREFIX!r}, or collide with such a name, are "
            "reserved for message queues. Choose another name.",
        )


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
    """Names with the same key differ only in '.' and '_'; as in Kafka, they collide (in metric names)."""
    return name.replace(".", "_")
