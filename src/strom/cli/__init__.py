"""The command `strom`. Client commands use confluent-kafka and work with any Kafka."""

from strom.cli.program import main

__all__ = ["main"]
