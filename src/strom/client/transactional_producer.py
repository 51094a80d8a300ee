"""A producer of confluent-kafka that fails in one way only: by raising a KafkaException.

When a transactional producer has been fenced off, confluent-kafka now and then throws its KafkaError
itself, which is no exception (`except BaseException` lets it pass, and so does pytest), or Python
notices that it returned and raised at once, and raises SystemError. Callers need not know.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, Producer

Answer = TypeVar("Answer")


class TransactionalProducer(Producer):  # type: ignore[misc] # it has no types
    """Every call that may hear of a fatal error raises it as KafkaException."""

    def poll(self, *given: Any, **named: Any) -> int:
        """As Producer has it."""
        left: int = sound(super().poll, *given, **named)
        return left

    def flush(self, *given: Any, **named: Any) -> int:
        """As Producer has it."""
        left: int = sound(super().flush, *given, **named)
        return left

    def init_transactions(self, *given: Any, **named: Any) -> None:
        """As Producer has it."""
        sound(super().init_transactions, *given, **named)

    def begin_transaction(self, *given: Any, **named: Any) -> None:
        """As Producer has it."""
        sound(super().begin_transaction, *given, **named)

    def send_offsets_to_transaction(self, *given: Any, **named: Any) -> None:
        """As Producer has it."""
        sound(super().send_offsets_to_transaction, *given, **named)

    def commit_transaction(self, *given: Any, **named: Any) -> None:
        """As Producer has it."""
        sound(super().commit_transaction, *given, **named)

    def abort_transaction(self, *given: Any, **named: Any) -> None:
        """As Producer has it."""
        sound(super().abort_transaction, *given, **named)


def sound(call: Callable[..., Answer], *given: Any, **named: Any) -> Answer:
    """What the call returns; everything that it throws is an exception."""
    try:
        return call(*given, **named)
    except SystemError as error:
        reason = str(error.__cause__ or error)
    except BaseException:
        raise
    except:  # noqa: E722 - what is thrown here is no exception, and nothing else catches it
        reason = "the producer is of no use any more (fenced off by a successor, most likely)"
    # Not inside of the handler: Python would chain this to something that is no exception.
    raise KafkaException(KafkaError(KafkaError._FATAL, reason, fatal=True))
