"""The Kafka client's exceptions, told in plain words and without importing the client."""

import re
import sys
from typing import Any

_PREFIXES = re.compile(r"\b(Broker|Local): ")


def kafka_exceptions() -> tuple[type[BaseException], ...]:
    """KafkaException, if a command has imported the client at all."""
    client = sys.modules.get("confluent_kafka")
    return (client.KafkaException,) if client else ()


def kafka_reason(error: Any) -> str:
    """What a KafkaException or KafkaError says, without librdkafka's prefixes."""
    cause = error.args[0] if isinstance(error, BaseException) and error.args else error
    text = cause.str() if hasattr(cause, "str") else str(cause)
    text = _PREFIXES.sub("", text.removeprefix("Unable to produce message: "))
    return text if text.endswith((".", "!", "?")) else f"{text}."
