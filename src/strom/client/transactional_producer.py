"""A confluent-kafka producer whose failures are always KafkaExceptions.

When a transactional producer has been fenced, confluent-kafka sometimes raises a bare KafkaError, which
is not an exception (neither `except BaseException` nor pytest catches it), or returns a result with an
exception set, which Python turns into SystemError.
"""

# ruff: noqa: D102 - the methods are documented by Producer

from collections.abc import Callable
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, Producer

T = TypeVar("T")


class TransactionalProducer(Producer):  # type: ignore[misc] # it has no types
    """Every call that can meet a fatal error raises it as KafkaException."""

    def poll(self, *args: Any, **options: Any) -> int:
        left: int = raise_as_exception(super().poll, *args, **options)
        return left

    def flush(self, *args: Any, **options: Any) -> int:
        left: int = raise_as_exception(super().flush, *args, **options)
        return left

    def init_transactions(self, *args: Any, **options: Any) -> None:
        raise_as_exception(super().init_transactions, *args, **options)

    def begin_transaction(self, *args: Any, **options: Any) -> None:
        raise_as_exception(super().begin_transaction, *args, **options)

    def send_offsets_to_transaction(self, *args: Any, **options: Any) -> None:
        raise_as_exception(super().send_offsets_to_transaction, *args, **options)

    def commit_transaction(self, *args: Any, **options: Any) -> None:
        raise_as_exception(super().commit_transaction, *args, **options)

    def abort_transaction(self, *args: Any, **options: Any) -> None:
        raise_as_exception(super().abort_transaction, *args, **options)


def raise_as_exception(call: Callable[..., T], *args: Any, **options: Any) -> T:
    """The result of a call; anything that it raises becomes an exception."""
    try:
        return call(*args, **options)
    except SystemError as error:
        reason = str(error.__cause__ or error)
    except BaseException:
        raise
    except:  # noqa: E722 - a bare KafkaError, which nothing else catches
        reason = "the producer cannot be used any more (most likely fenced by a newer one)"
    # Outside of the handler: Python would chain this to an object that is not an exception.
    raise KafkaException(KafkaError(KafkaError._FATAL, reason, fatal=True))
