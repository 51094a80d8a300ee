"""Asking brokers of queues: what a test does again and again."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

PERSISTENT = pika.BasicProperties(delivery_mode=2)
PATIENCE_S = 15


@contextlib.contextmanager
def closes_channel(code: int) -> Iterator[None]:
    """What happens inside makes the broker close the channel with this code."""
    with pytest.raises(ChannelClosedByBroker) as closed:
        yield
    assert closed.value.reply_code == code


@contextlib.contextmanager
def closes_connection(code: int) -> Iterator[None]:
    """What happens inside makes the broker close the connection with this code."""
    with pytest.raises(ConnectionClosedByBroker) as closed:
        yield
    assert closed.value.reply_code == code


def eventually(look: Callable[[], Any], expected: Any = True) -> None:
    """Some things take a broker a moment."""
    deadline = time.monotonic() + PATIENCE_S
    while (seen := look()) != expected:
        assert time.monotonic() < deadline, f"{seen!r} stayed, {expected!r} was expected"
        time.sleep(0.02)


def count(channel: Any, queue: str) -> int:
    """How many messages wait."""
    waiting: int = channel.queue_declare(queue, passive=True).method.message_count
    return waiting


def bodies(channel: Any, queue: str) -> list[bytes]:
    """Take everything that waits."""
    taken = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        taken.append(got[2])
    return taken


def collect(
    channel: Any, queue: str, expected: int, **options: Any
) -> list[tuple[Any, Any, bytes]]:
    """Consume so many messages, then end the consumer without acknowledging anything more."""
    found: list[tuple[Any, Any, bytes]] = []
    for method, properties, body in channel.consume(
        queue, inactivity_timeout=PATIENCE_S, **options
    ):
        assert method is not None, f"only {len(found)} of {expected} messages came"
        found.append((method, properties, body))
        if len(found) == expected:
            break
    return found
