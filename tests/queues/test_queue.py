"""Single scenes of a queue: time, limits, priorities, whose turn it is."""

import pytest

from strom.queues.consumers import Consumer
from strom.queues.errors import QueueError
from strom.queues.queue import EXPIRY_SLICE, RETRY_MS
from tests.queues.memory_store import CollectingOutlet, make_message, make_queue


def consume(queue, tag="c", **options):
    consumer = Consumer(queue, CollectingOutlet(), tag, **options)
    queue.consumers.add(consumer)
    return consumer


def taken(queue, now_ms=0):
    found = []
    while (got := queue.get(now_ms, no_ack=True)) is not None:
        found.append(got.message.body)
    return found


def test_messages_expire_in_their_turn_and_the_clock_is_set_for_the_next():
    queue = make_queue(message_ttl=100)
    for at in (0, 50):
        queue.publish(make_message(str(at).encode(), at), at)
    assert queue._host.wakes == [100]
    queue.woken(100)
    assert queue._host.given_up == [(b"0", "expired")]
    assert queue._host.wakes == [100, 150]
    assert taken(queue, 149) == [b"50"]


def test_waking_a_moment_too_early_sets_the_clock_again():
    queue = make_queue(message_ttl=100)
    queue.publish(make_message(b"m", 0), 0)
    queue.woken(99)
    assert queue._host.wakes == [100, 100]


def test_the_shorter_of_both_times_counts():
    queue = make_queue(message_ttl=100)
    queue.publish(make_message(b"m", 0, expiration="10"), 0)
    queue.woken(10)
    assert queue._host.given_up == [(b"m", "expired")]


def test_a_message_with_a_ttl_of_zero_goes_to_a_waiting_consumer():
    queue = make_queue(message_ttl=0)
    queue.publish(make_message(b"1"), 0)
    assert queue._host.given_up == [(b"1", "expired")]
    consumer = consume(queue, no_ack=True)
    queue.publish(make_message(b"2"), 0)
    assert [body for _, _, body, _ in consumer.outlet.got] == [b"2"]


def test_a_full_queue_drops_from_its_head():
    queue = make_queue(max_length=2)
    for body in (b"1", b"2", b"3"):
        assert queue.publish(make_message(body), 0)
    assert queue._host.given_up == [(b"1", "maxlen")]
    assert taken(queue) == [b"2", b"3"]


def test_a_full_queue_may_refuse():
    queue = make_queue(max_length=1, overflow="reject-publish")
    assert queue.publish(make_message(b"1"), 0)
    assert not queue.publish(make_message(b"2"), 0)
    assert queue._host.given_up == []


def test_a_message_too_large_for_the_queue_goes_at_once():
    queue = make_queue(max_length_bytes=3)
    queue.publish(make_message(b"1234"), 0)
    assert (queue.waiting, queue.backlog.size) == (0, 0)


def test_priorities_beyond_the_highest_count_as_the_highest():
    queue = make_queue(max_priority=3)
    for body, priority in ((b"a", 9), (b"b", 3), (b"c", 0)):
        queue.publish(make_message(body, priority=priority), 0)
    assert taken(queue) == [b"a", b"b", b"c"]


def test_a_returned_message_keeps_its_place_among_its_priority():
    queue = make_queue(max_priority=3)
    for body in (b"a", b"b"):
        queue.publish(make_message(body, priority=1), 0)
    position = queue.get(0, no_ack=False).position
    queue.requeue([position])
    assert taken(queue) == [b"a", b"b"]


def test_a_message_is_given_up_after_its_last_delivery():
    queue = make_queue(delivery_limit=2)
    queue.publish(make_message(b"m"), 0)
    for _ in range(3):
        queue.requeue([queue.get(0, no_ack=False).position])
    assert queue._host.given_up == [(b"m", "delivery_limit")]


def test_consumers_take_turns_and_who_cannot_take_is_passed_over():
    queue = make_queue()
    one, two = consume(queue, "one", limit=1), consume(queue, "two")
    for number in range(4):
        queue.publish(make_message(str(number).encode()), 0)
    assert len(one.outlet.got) == 1
    assert len(two.outlet.got) == 3


def test_only_the_oldest_of_single_active_consumers_gets_messages():
    queue = make_queue(single_active_consumer=True)
    one, two = consume(queue, "one", limit=1), consume(queue, "two")
    for number in range(3):
        queue.publish(make_message(str(number).encode()), 0)
    assert (len(one.outlet.got), len(two.outlet.got)) == (1, 0)
    queue.consumers.remove(one)
    queue.serve(0)
    assert len(two.outlet.got) == 2


def test_an_exclusive_consumer_wants_to_be_alone():
    queue = make_queue()
    consume(queue, exclusive=True)
    with pytest.raises(QueueError, match="exclusive"):
        consume(queue, "other")


def test_a_hole_in_the_log_is_passed_over():
    queue = make_queue()
    for body in (b"1", b"2", b"3"):
        queue.publish(make_message(body), 0)
    del queue.store.messages[1]
    assert taken(queue) == [b"1", b"3"]


@pytest.mark.parametrize("arguments", [{}, {"max_priority": 3}, {"max_length_bytes": 10_000}])
def test_messages_that_come_back_are_not_read_for_that(arguments):
    queue = make_queue(**arguments)
    for number in range(20):
        queue.publish(make_message(str(number).encode(), priority=number % 3), 0)
    expected = taken_and_returned(queue)
    read = queue.store.reads
    queue.requeue(list(queue.unacked))
    assert queue.store.reads == read
    assert queue.backlog.size == sum(map(len, expected))
    assert taken(queue) == expected


def taken_and_returned(queue):
    """Take all; the bodies in the order of delivery."""
    return [queue.get(0, no_ack=False).message.body for _ in range(queue.waiting)]


def test_while_messages_come_back_in_slices_no_consumer_gets_any():
    queue = make_queue()
    for number in range(4):
        queue.publish(make_message(str(number).encode()), 0)
    positions = [queue.get(0, no_ack=False).position for _ in range(3)]
    consumer = consume(queue, no_ack=True)
    queue.begin_requeue()
    queue.requeue(positions[1:])
    queue.serve(0)
    queue.publish(make_message(b"4"), 0)
    assert consumer.outlet.got == []
    queue.requeue(positions[:1])
    queue.end_requeue()
    queue.serve(0)
    delivered = [(body, redelivered) for _, _, body, redelivered in consumer.outlet.got]
    assert delivered == [(b"0", True), (b"1", True), (b"2", True), (b"3", False), (b"4", False)]


def test_an_empty_queue_whose_messages_come_back_delivers_nothing_new_before_them():
    queue = make_queue()
    queue.publish(make_message(b"old"), 0)
    position = queue.get(0, no_ack=False).position
    consumer = consume(queue, no_ack=True)
    queue.begin_requeue()
    queue.publish(make_message(b"new"), 0)
    queue.requeue([position])
    queue.end_requeue()
    queue.serve(0)
    assert [body for _, _, body, _ in consumer.outlet.got] == [b"old", b"new"]


def test_a_time_to_live_counts_on_after_a_delivery_that_never_waited():
    queue = make_queue()
    consumer = consume(queue)
    queue.publish(make_message(b"m", 0, expiration="100"), 0)
    ((_, position, _, _),) = consumer.outlet.got
    queue.consumers.remove(consumer)
    queue.requeue([position])
    queue.serve(50)
    assert queue._host.wakes == [100]
    queue.woken(100)
    assert queue._host.given_up == [(b"m", "expired")]


def test_a_time_to_live_counts_on_after_waiting_and_a_delivery():
    queue = make_queue()
    queue.publish(make_message(b"m", 0, expiration="100"), 0)
    consumer = consume(queue)
    queue.serve(10)
    ((_, position, _, _),) = consumer.outlet.got
    queue.consumers.remove(consumer)
    queue.requeue([position])
    queue.serve(100)
    assert queue._host.given_up == [(b"m", "expired")]


def test_many_expired_messages_are_dropped_in_slices_and_no_consumer_gets_one():
    queue = make_queue(message_ttl=100)
    count = 3 * EXPIRY_SLICE + 1
    for number in range(count):
        queue.publish(make_message(str(number).encode(), 0), 0)
    queue.publish(make_message(b"live", 60), 60)
    consumer = consume(queue, no_ack=True)
    dropped = []
    queue.serve(100)
    while queue.is_paused:
        dropped.append(len(queue._host.given_up))
        assert queue._host.wakes[-1] == 100
        assert consumer.outlet.got == []
        queue.publish(make_message(b"new", 100), 100)
        queue.serve(100)
        assert queue.get(100, no_ack=True) is None
        assert len(queue._host.given_up) == dropped[-1]  # only the slice of each turn
        queue.woken(100)
    assert dropped == [EXPIRY_SLICE * slices for slices in (1, 2, 3)]
    expired = [str(number).encode() for number in range(count)]
    assert queue._host.given_up == [(body, "expired") for body in expired]
    assert [body for _, _, body, _ in consumer.outlet.got] == [b"live", *[b"new"] * 3]


def test_purging_forgets_how_often_messages_came_back():
    queue = make_queue(delivery_limit=5)
    for body in (b"1", b"2"):
        queue.publish(make_message(body), 0)
    queue.requeue([queue.get(0, no_ack=False).position for _ in range(2)])
    out = queue.get(0, no_ack=False).position
    queue.purge()
    assert list(queue._returns) == [out]


@pytest.mark.parametrize("arguments", [{}, {"max_priority": 3}, {"message_ttl": 10_000}])
def test_messages_that_cannot_be_read_now_wait_until_they_can(arguments):
    queue = make_queue(**arguments)
    for body in (b"1", b"2"):
        queue.publish(make_message(body), 0)
    consumer = consume(queue)
    queue.store.is_readable = False
    queue.serve(0)
    assert queue.get(0, no_ack=False) is None
    assert (queue.waiting, consumer.outlet.got) == (2, [])
    assert min(queue._host.wakes) == RETRY_MS
    queue.store.is_readable = True
    queue.woken(RETRY_MS)
    assert [(body, again) for _, _, body, again in consumer.outlet.got] == [
        (b"1", False),
        (b"2", False),
    ]


def test_a_full_queue_drops_what_it_cannot_read_now_later():
    queue = make_queue(max_length=1)
    queue.publish(make_message(b"1"), 0)
    queue.store.is_readable = False
    queue.publish(make_message(b"2"), 0)
    queue.store.is_readable = True
    queue.publish(make_message(b"3"), 0)
    assert queue._host.given_up == [(b"1", "maxlen"), (b"2", "maxlen")]
    assert taken(queue) == [b"3"]
