"""Classifies confluent-kafka's exceptions, without importing the client.

A KafkaException wraps a KafkaError. Names of librdkafka's local errors begin with an underscore, the
others are those of Kafka's protocol.
"""

import re
import sys
from typing import Any, Final

NO_RESPONSE: Final = frozenset({"_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE"})
"""No broker responds. librdkafka keeps trying to connect."""
NO_LEADER: Final = frozenset(
    {
        "NOT_LEADER_FOR_PARTITION",
        "LEADER_NOT_AVAILABLE",
        "REPLICA_NOT_AVAILABLE",
        "OFFSET_NOT_AVAILABLE",
        "UNKNOWN_LEADER_EPOCH",
        "FENCED_LEADER_EPOCH",
        "KAFKA_STORAGE_ERROR",
    }
)
"""A partition has no leader at the moment, or the client's metadata is stale."""
NOT_VISIBLE_YET: Final = frozenset(
    {"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC"}
)
"""A topic that was just created has not reached every broker yet, nor librdkafka's metadata cache."""
COORDINATOR_NOT_READY: Final = frozenset(
    {"COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"}
)

_PREFIXES = re.compile(r"\b(Broker|Local): ")


def kafka_exceptions() -> tuple[type[BaseException], ...]:
    """KafkaException for an `except` clause; empty if the client was never imported."""
    client = sys.modules.get("confluent_kafka")
    return (client.KafkaException,) if client else ()


def error_name(error: BaseException) -> str:
    """The name of a KafkaException's error, such as `TOPIC_ALREADY_EXISTS`."""
    return str(error.args[0].name())


def kafka_reason(error: Any) -> str:
    """The text of a KafkaException or KafkaError as a sentence, without librdkafka's prefixes."""
    cause = error.args[0] if isinstance(error, BaseException) and error.args else error
    text = cause.str() if hasattr(cause, "str") else str(cause)
    text = _PREFIXES.sub("", text.removeprefix("Unable to produce message: "))
    return text if text.endswith((".", "!", "?")) else f"{text}."
