"""A confluent-kafka producer whose failures are always KafkaExceptions.

When a transactional producer has been fenced, confluent-kafka sometimes raises a bare KafkaError, which
is not an exception (neither `except BaseException` nor pytest catches it), or returns a result with an
exception set, which Python turns into SystemError.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, Producer

T = TypeVar("T")


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


def _checked(name: str) -> Callable[..., Any]:
    inherited = getattr(Producer, name)

    @functools.wraps(inherited)
    def call(*args: Any, **options: Any) -> Any:
        return raise_as_exception(inherited, *args, **options)

    return call


class TransactionalProducer(Producer):  # type: ignore[misc] # it has no types
    """Every call that can meet a fatal error raises it as KafkaException."""

    poll = _checked("poll")
    flush = _checked("flush")
    init_transactions = _checked("init_transactions")
    begin_transaction = _checked("begin_transaction")
    send_offsets_to_transaction = _checked("send_offsets_to_transaction")
    commit_transaction = _checked("commit_transaction")
    abort_transaction = _checked("abort_transaction")
