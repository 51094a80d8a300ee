"""Ready messages with their size and limits, over a store in memory."""

import pytest

from strom.queues.arguments import QueueRules
from strom.queues.backlog import Backlog
from strom.queues.store import MessageUnavailable
from tests.queues.memory_store import MemoryStore, make_message


def backlog_of(*bodies, **rules):
    store = MemoryStore()
    backlog = Backlog(QueueRules(**rules), store)
    for body in bodies:
        message = make_message(body)
        backlog.add(store.add(message, None), message)
    return backlog, store


def test_messages_are_taken_in_order_and_their_bytes_counted():
    backlog, _ = backlog_of(b"one", b"three")
    assert backlog.size == 8
    position, message, redelivered = backlog.take()
    assert (position, message.body, redelivered) == (0, b"one", False)
    assert (backlog.size, len(backlog.ready)) == (5, 1)


def test_a_message_that_was_put_back_is_first_again_and_redelivered():
    backlog, _ = backlog_of(b"one", b"two")
    position, message, _ = backlog.take()
    backlog.put_back(position, len(message.body), 0)
    assert backlog.size == 6
    assert [backlog.take()[::2] for _ in range(2)] == [(0, True), (1, False)]


def test_messages_from_before_a_restart_may_be_redelivered():
    backlog, _ = backlog_of(b"one", b"two")
    backlog.redelivered_before = 1
    assert [backlog.take()[2] for _ in range(2)] == [True, False]


def test_a_message_that_cannot_be_read_now_stays_at_the_head():
    backlog, store = backlog_of(b"one")
    store.is_readable = False
    with pytest.raises(MessageUnavailable):
        backlog.take()
    assert (backlog.size, len(backlog.ready)) == (3, 1)
    store.is_readable = True
    assert backlog.take()[1].body == b"one"


def test_a_position_without_a_message_is_skipped():
    backlog, store = backlog_of(b"one", b"two")
    store.remove(0)
    assert backlog.take() is None
    assert backlog.take()[1].body == b"two"


def test_higher_priorities_are_taken_first():
    store = MemoryStore()
    backlog = Backlog(QueueRules(max_priority=5), store)
    for priority in (1, 5, 3):
        message = make_message(b"%d" % priority, priority=priority)
        backlog.add(store.add(message, None), message)
    assert [backlog.take()[1].body for _ in range(3)] == [b"5", b"3", b"1"]


@pytest.mark.parametrize(
    ("rules", "more", "more_bytes", "expected"),
    [
        ({}, 1000, 1000, False),
        ({"max_length": 2}, 0, 0, False),
        ({"max_length": 2}, 1, 0, True),
        ({"max_length_bytes": 6}, 5, 0, False),
        ({"max_length_bytes": 6}, 0, 1, True),
    ],
)
def test_both_limits_count_what_would_be_added(rules, more, more_bytes, expected):
    backlog, _ = backlog_of(b"one", b"two", **rules)
    assert backlog.is_over(more, more_bytes) is expected


def test_clearing_gives_all_positions_and_leaves_no_bytes():
    backlog, _ = backlog_of(b"one", b"two", b"three")
    position, _, _ = backlog.take()
    backlog.put_back(position, 3, 0)
    assert backlog.clear() == [(0, 1), (1, 3)]
    assert (backlog.size, len(backlog.ready)) == (0, 0)


@pytest.mark.parametrize(
    ("ttl_ms", "expiration", "expected"),
    [(None, None, None), (50, None, 150), (None, "20", 120), (50, "20", 120), (10, "20", 110)],
)
def test_the_shorter_limit_decides_when_a_message_expires(ttl_ms, expiration, expected):
    backlog, _ = backlog_of(message_ttl_ms=ttl_ms)
    assert backlog.expires_at(make_message(b"", now_ms=100, expiration=expiration)) == expected
