"""The command `strom`. Client commands speak through confluent-kafka, to any Kafka."""

from strom.cli.program import main

__all__ = ["main"]
