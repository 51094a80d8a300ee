"""Queues: declaring, deleting, purging, who may use them, limits, times, priorities, dead letters."""

import time

import pika
import pytest

from tests.conformance_amqp.asking import (
    bodies,
    closes_channel,
    count,
    eventually,
)


def declare(channel, name, **arguments):
    queue = name()
    channel.queue_declare(
        queue,
        exclusive=True,
        arguments={key.replace("_", "-"): value for key, value in arguments.items()},
    )
    channel.confirm_delivery()
    return queue


def publish(channel, queue, *messages, **properties):
    for body in messages:
        channel.basic_publish("", queue, body, pika.BasicProperties(**properties))


def test_messages_come_out_in_the_order_they_went_in(channel, name):
    queue = declare(channel, name)
    sent = [str(number).encode() for number in range(200)]
    publish(channel, queue, *sent)
    assert bodies(channel, queue) == sent


def test_a_server_names_queues_by_itself(channel):
    first = channel.queue_declare("", exclusive=True).method.queue
    second = channel.queue_declare("", exclusive=True).method.queue
    assert first.startswith("amq.gen-")
    assert first != second


def test_an_empty_name_means_the_last_declared_queue(channel, name):
    queue = declare(channel, name)
    publish(channel, queue, b"m")
    assert channel.basic_get("", auto_ack=True)[2] == b"m"


def test_no_name_and_no_last_queue_is_not_found(channel):
    with closes_channel(404):
        channel.basic_get("")


@pytest.mark.parametrize(
    "change",
    [
        {"durable": True},
        {"auto_delete": True},
        {"arguments": {"x-max-length": 3}},
        {"arguments": {"x-message-ttl": 1000}},
    ],
)
def test_declaring_a_queue_otherwise_is_refused(channel, name, change):
    queue = name()
    channel.queue_declare(queue)
    with closes_channel(406):
        channel.queue_declare(queue, **change)


def test_other_arguments_do_not_count(channel, name):
    queue = name()
    channel.queue_declare(queue, exclusive=True, arguments={"x-mine": 1})
    channel.queue_declare(queue, exclusive=True, arguments={"x-mine": 2})


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-message-ttl": -1},
        {"x-message-ttl": "soon"},
        {"x-expires": 0},
        {"x-max-length": -1},
        {"x-overflow": "explode"},
        {"x-dead-letter-exchange": 5},
        {"x-dead-letter-routing-key": "k"},
        {"x-max-priority": 256},
        {"x-max-priority": -1},
        {"x-single-active-consumer": "yes"},
        {"x-queue-type": "nonsense"},
    ],
)
def test_arguments_that_make_no_sense_are_refused(channel, name, arguments):
    with closes_channel(406):
        channel.queue_declare(name(), exclusive=True, arguments=arguments)


def test_a_passive_declare_of_no_queue_is_not_found(channel, name):
    with closes_channel(404):
        channel.queue_declare(name(), passive=True)


def test_queue_names_with_the_reserved_prefix_are_refused(channel):
    with closes_channel(403):
        channel.queue_declare("amq.mine")


def test_an_exclusive_queue_is_locked_for_others(connect, name):
    queue = name()
    connect().channel().queue_declare(queue, exclusive=True)
    for use in (
        lambda channel: channel.queue_declare(queue, passive=True),
        lambda channel: channel.queue_declare(queue, exclusive=True),
        lambda channel: channel.basic_get(queue),
        lambda channel: channel.basic_consume(queue, lambda *_: None),
        lambda channel: channel.queue_purge(queue),
        lambda channel: channel.queue_delete(queue),
        lambda channel: channel.queue_bind(queue, "amq.direct", "k"),
    ):
        with closes_channel(405):
            use(connect().channel())


def test_an_exclusive_queue_goes_with_its_connection(connect, channel, name):
    queue = name()
    owner = connect()
    owner.channel().queue_declare(queue, exclusive=True)
    owner.close()

    def is_gone():
        probe = connect().channel()
        try:
            probe.queue_declare(queue, passive=True)
        except pika.exceptions.ChannelClosedByBroker as error:
            return error.reply_code
        return 0

    eventually(is_gone, 404)


def test_an_auto_delete_queue_goes_with_its_last_consumer(connect, name):
    queue = name()
    channel = connect().channel()
    channel.queue_declare(queue, auto_delete=True)
    channel.queue_declare(queue, passive=True)
    tag = channel.basic_consume(queue, lambda *_: None)
    channel.basic_cancel(tag)

    def is_gone():
        probe = connect().channel()
        try:
            probe.queue_declare(queue, passive=True)
        except pika.exceptions.ChannelClosedByBroker as error:
            return error.reply_code
        return 0

    eventually(is_gone, 404)


def test_purging_takes_what_waits_and_leaves_what_is_out(channel, name):
    queue = declare(channel, name)
    publish(channel, queue, b"1", b"2", b"3")
    taken = channel.basic_get(queue)
    assert channel.queue_purge(queue).method.message_count == 2
    channel.basic_nack(taken[0].delivery_tag, requeue=True)
    eventually(lambda: count(channel, queue), 1)


def test_deleting_reports_the_number_of_deleted_messages(channel, name):
    queue = declare(channel, name)
    publish(channel, queue, b"1", b"2")
    assert channel.queue_delete(queue).method.message_count == 2
    assert channel.queue_delete(queue).method.message_count == 0


def test_deleting_a_queue_only_if_empty(channel, name):
    queue = declare(channel, name)
    publish(channel, queue, b"1")
    with closes_channel(406):
        channel.queue_delete(queue, if_empty=True)


def test_deleting_a_queue_only_if_unused(connect, name):
    queue = name()
    connection = connect()
    channel = connection.channel()
    channel.queue_declare(queue, exclusive=True)
    channel.basic_consume(queue, lambda *_: None)
    with closes_channel(406):
        connection.channel().queue_delete(queue, if_unused=True)


def test_consumers_are_notified_when_their_queue_goes(connect, name):
    connection = connect()
    channel, other = connection.channel(), connection.channel()
    queue = name()
    channel.queue_declare(queue, exclusive=True)
    cancelled = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tag = channel.basic_consume(queue, lambda *_: None)
    other.queue_delete(queue)
    connection.process_data_events(time_limit=1)
    assert cancelled == [tag]


# --- limits ------------------------------------------------------------------------------------


def test_a_full_queue_drops_its_oldest(channel, name):
    queue = declare(channel, name, x_max_length=2)
    publish(channel, queue, b"1", b"2", b"3")
    assert bodies(channel, queue) == [b"2", b"3"]


def test_a_queue_may_be_limited_in_bytes(channel, name):
    queue = declare(channel, name, x_max_length_bytes=10)
    publish(channel, queue, b"1234", b"5678", b"90123")
    assert bodies(channel, queue) == [b"5678", b"90123"]


def test_a_full_queue_may_refuse_the_newest(channel, name):
    queue = declare(channel, name, x_max_length=1, x_overflow="reject-publish")
    publish(channel, queue, b"1")
    with pytest.raises(pika.exceptions.NackError):
        publish(channel, queue, b"2")
    assert bodies(channel, queue) == [b"1"]


# --- times -------------------------------------------------------------------------------------


def test_messages_live_as_long_as_their_queue_says(channel, name):
    queue = declare(channel, name, x_message_ttl=100)
    publish(channel, queue, b"1")
    assert count(channel, queue) == 1
    eventually(lambda: count(channel, queue), 0)


def test_messages_may_say_how_long_they_live(channel, name):
    queue = declare(channel, name)
    publish(channel, queue, b"1", expiration="100")
    publish(channel, queue, b"2")
    eventually(lambda: count(channel, queue), 1)
    assert bodies(channel, queue) == [b"2"]


def test_only_the_head_of_a_queue_expires(channel, name):
    queue = declare(channel, name)
    publish(channel, queue, b"1")
    publish(channel, queue, b"2", expiration="50")
    time.sleep(0.3)
    assert count(channel, queue) == 2
    assert bodies(channel, queue) == [b"1"]


def test_a_message_that_comes_back_goes_before_those_that_wait(channel, name):
    queue = declare(channel, name)
    publish(channel, queue, b"1", b"2", b"3")
    first, second = channel.basic_get(queue)[0], channel.basic_get(queue)[0]
    channel.basic_nack(second.delivery_tag, requeue=True)
    channel.basic_nack(first.delivery_tag, requeue=True)
    assert bodies(channel, queue) == [b"1", b"2", b"3"]


def test_an_expiration_that_is_no_number_is_refused(channel, name):
    queue = declare(channel, name)
    with closes_channel(406):
        publish(channel, queue, b"1", expiration="soon")


def test_an_unused_queue_expires(connect, name):
    queue = name()
    connect().channel().queue_declare(queue, arguments={"x-expires": 200})

    def is_gone():
        time.sleep(0.6)
        probe = connect().channel()
        try:
            probe.queue_declare(queue, passive=True)
        except pika.exceptions.ChannelClosedByBroker as error:
            return error.reply_code
        return 0

    eventually(is_gone, 404)


# --- priorities --------------------------------------------------------------------------------


def test_higher_priorities_come_first(channel, name):
    queue = declare(channel, name, x_max_priority=5)
    for body, priority in ((b"a", 1), (b"b", 5), (b"c", 3), (b"d", 9), (b"e", None), (b"f", 1)):
        publish(channel, queue, body, priority=priority)
    assert bodies(channel, queue) == [b"b", b"d", b"c", b"a", b"f", b"e"]


def test_priorities_mean_nothing_to_a_plain_queue(channel, name):
    queue = declare(channel, name)
    publish(channel, queue, b"a", priority=1)
    publish(channel, queue, b"b", priority=9)
    assert bodies(channel, queue) == [b"a", b"b"]


# --- dead letters ------------------------------------------------------------------------------


@pytest.fixture
def grave(channel, name):
    """A queue for dead letters, bound to an exchange for them."""
    exchange, queue = name("dlx"), name("grave")
    channel.exchange_declare(exchange, "fanout")
    channel.queue_declare(queue, exclusive=True)
    channel.queue_bind(queue, exchange)
    yield exchange, queue
    channel.connection.channel().exchange_delete(exchange)


def the_dead(channel, queue):
    eventually(lambda: count(channel, queue), 1)
    return channel.basic_get(queue, auto_ack=True)


def check_death(headers, queue, reason, *, deaths=1, exchange="", keys=None):
    newest = headers["x-death"][0]
    assert newest["count"] == deaths
    assert newest["reason"] == reason
    assert newest["queue"] == queue
    assert newest["exchange"] == exchange
    assert newest["routing-keys"] == (keys or [queue])
    assert "time" in newest


def test_rejected_messages_go_to_the_dead_letter_exchange(channel, name, grave):
    exchange, dead = grave
    queue = declare(channel, name, x_dead_letter_exchange=exchange)
    publish(channel, queue, b"m", content_type="text/plain", headers={"mine": 7})
    method, _, _ = channel.basic_get(queue)
    channel.basic_reject(method.delivery_tag, requeue=False)
    method, properties, body = the_dead(channel, dead)
    assert (method.exchange, method.routing_key, body) == (exchange, queue, b"m")
    assert properties.content_type == "text/plain"
    assert properties.headers["mine"] == 7
    assert properties.headers["x-first-death-reason"] == "rejected"
    assert properties.headers["x-first-death-queue"] == queue
    assert properties.headers["x-first-death-exchange"] == ""
    check_death(properties.headers, queue, "rejected")


def test_an_expiration_counts_on_after_a_delivery_that_never_waited(channel, name, grave):
    exchange, dead = grave
    queue = declare(channel, name, x_dead_letter_exchange=exchange)
    consuming = channel.connection.channel()
    consuming.basic_consume(queue, lambda *_: consuming.stop_consuming())
    publish(channel, queue, b"m", expiration="100")
    consuming.start_consuming()
    consuming.close()
    _, properties, body = the_dead(channel, dead)
    assert body == b"m"
    check_death(properties.headers, queue, "expired")


def test_what_has_expired_behind_the_head_goes_when_the_head_is_taken(channel, name, grave):
    exchange, dead = grave
    queue = declare(channel, name, x_dead_letter_exchange=exchange)
    publish(channel, queue, b"head")
    publish(channel, queue, b"behind", expiration="50")
    time.sleep(0.2)
    assert count(channel, queue) == 2
    assert channel.basic_get(queue, auto_ack=True)[2] == b"head"
    assert the_dead(channel, dead)[2] == b"behind"


def test_expired_messages_go_there_without_their_expiration(channel, name, grave):
    exchange, dead = grave
    queue = declare(
        channel, name, x_dead_letter_exchange=exchange, x_dead_letter_routing_key="gone"
    )
    publish(channel, queue, b"m", expiration="50")
    method, properties, _ = the_dead(channel, dead)
    assert method.routing_key == "gone"
    assert properties.expiration is None
    assert properties.headers["x-death"][0]["original-expiration"] == "50"
    check_death(properties.headers, queue, "expired")


def test_dropped_messages_go_there(channel, name, grave):
    exchange, dead = grave
    queue = declare(channel, name, x_dead_letter_exchange=exchange, x_max_length=1)
    publish(channel, queue, b"1", b"2")
    _, properties, body = the_dead(channel, dead)
    assert body == b"1"
    check_death(properties.headers, queue, "maxlen")


def test_refused_messages_go_there_if_asked_to(channel, name, grave):
    exchange, dead = grave
    queue = declare(
        channel,
        name,
        x_dead_letter_exchange=exchange,
        x_max_length=1,
        x_overflow="reject-publish-dlx",
    )
    publish(channel, queue, b"1")
    with pytest.raises(pika.exceptions.NackError):
        publish(channel, queue, b"2")
    assert the_dead(channel, dead)[2] == b"2"


def test_deaths_are_counted(channel, name):
    queue = name()
    waiting = name("retry")
    channel.queue_declare(
        waiting,
        exclusive=True,
        arguments={
            "x-message-ttl": 20,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": queue,
        },
    )
    channel.queue_declare(
        queue,
        exclusive=True,
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": waiting},
    )
    channel.confirm_delivery()
    publish(channel, queue, b"m")
    for _ in range(2):
        eventually(lambda: count(channel, queue), 1)
        method, _, _ = channel.basic_get(queue)
        channel.basic_reject(method.delivery_tag, requeue=False)
    eventually(lambda: count(channel, queue), 1)
    _, properties, _ = channel.basic_get(queue, auto_ack=True)
    story = [
        (entry["queue"], entry["reason"], entry["count"]) for entry in properties.headers["x-death"]
    ]
    assert story == [(waiting, "expired", 2), (queue, "rejected", 2)]


def test_a_circle_without_a_rejection_ends(channel, name):
    queue = name()
    channel.queue_declare(
        queue,
        exclusive=True,
        arguments={
            "x-message-ttl": 20,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": queue,
        },
    )
    channel.confirm_delivery()
    publish(channel, queue, b"m")
    eventually(lambda: count(channel, queue), 0)
    time.sleep(0.1)
    assert count(channel, queue) == 0


# --- consumers ---------------------------------------------------------------------------------


def test_a_single_active_consumer_gets_everything(connect, name):
    queue = name()
    channel = connect().channel()
    channel.queue_declare(queue, exclusive=False, arguments={"x-single-active-consumer": True})
    got: dict[str, list[bytes]] = {"first": [], "second": []}
    one, two = connect().channel(), connect().channel()
    tag = one.basic_consume(queue, lambda *args: got["first"].append(args[3]), auto_ack=True)
    two.basic_consume(queue, lambda *args: got["second"].append(args[3]), auto_ack=True)
    for number in range(4):
        channel.basic_publish("", queue, str(number).encode())
    deadline = time.monotonic() + 10
    while len(got["first"]) < 4 and time.monotonic() < deadline:
        one.connection.process_data_events(time_limit=0.1)
    one.basic_cancel(tag)
    channel.basic_publish("", queue, b"4")
    while len(got["second"]) < 1 and time.monotonic() < deadline:
        two.connection.process_data_events(time_limit=0.1)
    assert got == {"first": [b"0", b"1", b"2", b"3"], "second": [b"4"]}
    channel.queue_delete(queue)


def test_delivery_limits_as_quorum_queues_have_them(channel, name, grave):
    exchange, dead = grave
    queue = name()
    channel.queue_declare(
        queue,
        durable=True,
        arguments={
            "x-queue-type": "quorum",
            "x-delivery-limit": 2,
            "x-dead-letter-exchange": exchange,
        },
    )
    channel.confirm_delivery()
    publish(channel, queue, b"m")
    counts = []

    def give_back(consumer, method, properties, body):
        counts.append((properties.headers or {}).get("x-delivery-count"))
        consumer.basic_nack(method.delivery_tag, requeue=True)

    consumer = channel.connection.channel()
    consumer.basic_qos(prefetch_count=1)
    consumer.basic_consume(queue, give_back)
    deadline = time.monotonic() + 10
    while len(counts) < 3 and time.monotonic() < deadline:
        consumer.connection.process_data_events(time_limit=0.2)
    assert counts == [None, 1, 2]
    _, properties, _ = the_dead(channel, dead)
    assert properties.headers["x-death"][0]["reason"] == "delivery_limit"
    channel.queue_delete(queue)


def test_a_full_queue_with_priorities_drops_its_head(channel, name):
    queue = declare(channel, name, x_max_priority=5, x_max_length=2)
    for body, priority in ((b"a", 5), (b"b", 1), (b"c", 3)):
        publish(channel, queue, body, priority=priority)
    assert bodies(channel, queue) == [b"c", b"b"]


def test_confirms_come_for_messages_of_a_deleted_queue(connect, name):
    queue = name()
    connection = connect()
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)
    confirmed = []
    channel._impl.confirm_delivery(
        lambda frame: confirmed.append((frame.method.delivery_tag, frame.method.multiple))
    )
    for number in range(20):
        channel._impl.basic_publish(
            "", queue, str(number).encode(), pika.BasicProperties(delivery_mode=2)
        )
    channel.queue_delete(queue)
    deadline = time.monotonic() + 10
    while not confirmed or max(confirmed)[0] < 20:
        assert time.monotonic() < deadline, confirmed
        connection.process_data_events(time_limit=0.1)
