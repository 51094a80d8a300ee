"""Publishing, consuming, acknowledging, confirming, transactions."""

import time

import pika
import pytest
from pika.exceptions import UnroutableError

from tests.conformance_amqp.asking import (
    PATIENCE_S,
    PERSISTENT,
    bodies,
    closes_channel,
    closes_connection,
    collect,
    count,
    eventually,
)


@pytest.fixture
def queue(channel, name):
    made = name()
    channel.queue_declare(made, exclusive=True)
    return made


def fill(channel, queue, number):
    for index in range(number):
        channel.basic_publish("", queue, str(index).encode())
    eventually(lambda: count(channel, queue), number)


def test_all_properties_arrive_as_they_were_sent(channel, queue):
    sent = pika.BasicProperties(
        content_type="application/json",
        content_encoding="utf-8",
        headers={
            "text": "ä",
            "number": 7,
            "big": 2**40,
            "yes": True,
            "none": None,
            "list": [1, "a"],
        },
        delivery_mode=2,
        priority=3,
        correlation_id="c",
        reply_to="r",
        expiration="60000",
        message_id="m",
        timestamp=1_700_000_000,
        type="t",
        user_id="guest",
        app_id="a",
        cluster_id="x",
    )
    channel.basic_publish("", queue, b"body", sent)
    eventually(lambda: count(channel, queue), 1)
    method, properties, body = channel.basic_get(queue)
    assert body == b"body"
    assert vars(properties) == vars(sent)
    assert (method.exchange, method.routing_key, method.redelivered) == ("", queue, False)


@pytest.mark.parametrize("size", [0, 1, 131_064, 131_065, 400_000])
def test_bodies_of_every_size(channel, queue, size):
    body = bytes(index % 251 for index in range(size))
    channel.basic_publish("", queue, body)
    [(_, _, received)] = collect(channel, queue, 1)
    assert received == body


def test_another_users_id_is_refused(channel, queue):
    channel.confirm_delivery()
    with closes_channel(406):
        channel.basic_publish("", queue, b"", pika.BasicProperties(user_id="other"))


def test_a_mandatory_message_without_a_queue_comes_back(channel, name):
    channel.confirm_delivery()
    with pytest.raises(UnroutableError) as error:
        channel.basic_publish("amq.direct", name("k"), b"m", mandatory=True)
    [returned] = error.value.messages
    assert returned.method.reply_code == 312
    assert returned.body == b"m"


def test_a_message_without_a_queue_is_confirmed(channel, name):
    channel.confirm_delivery()
    channel.basic_publish("amq.direct", name("k"), b"m")


def test_immediate_is_not_implemented(connect, queue):
    channel = connect().channel()
    with closes_connection(540):
        channel._impl._send_method(
            pika.spec.Basic.Publish(exchange="", routing_key=queue, immediate=True),
            (pika.BasicProperties(), b"x"),
        )
        channel.connection.process_data_events(time_limit=5)


def test_a_client_cannot_pause_a_channel(connect):
    channel = connect().channel()
    assert channel.flow(True), "it is not paused"
    with closes_connection(540):
        channel.flow(False)


def test_persistent_messages_are_confirmed(channel, name):
    queue = name()
    channel.queue_declare(queue, durable=True)
    channel.confirm_delivery()
    for number in range(20):
        channel.basic_publish("", queue, str(number).encode(), PERSISTENT)
    assert count(channel, queue) == 20
    channel.queue_delete(queue)


# --- get ---------------------------------------------------------------------------------------


def test_get_has_the_number_of_remaining_messages(channel, queue):
    fill(channel, queue, 3)
    assert [channel.basic_get(queue)[0].message_count for _ in range(3)] == [2, 1, 0]
    assert channel.basic_get(queue) == (None, None, None)


def test_getting_from_nothing_is_not_found(channel, name):
    with closes_channel(404):
        channel.basic_get(name())


# --- acknowledging -----------------------------------------------------------------------------


def test_what_is_not_acknowledged_comes_back_with_its_place(connect, channel, name):
    queue = name()
    channel.queue_declare(queue)
    fill(channel, queue, 4)
    other = connect()
    taker = other.channel()
    for _ in range(3):
        taker.basic_get(queue)
    taker.basic_ack(2)
    other.close()
    eventually(lambda: count(channel, queue), 3)
    got = [channel.basic_get(queue, auto_ack=True) for _ in range(3)]
    assert [body for _, _, body in got] == [b"0", b"2", b"3"]
    assert [method.redelivered for method, _, _ in got] == [True, True, False]
    channel.queue_delete(queue)


def test_acknowledging_many_at_once(channel, queue):
    fill(channel, queue, 5)
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(5)]
    channel.basic_ack(tags[2], multiple=True)
    channel.basic_nack(0, multiple=True, requeue=True)
    eventually(lambda: count(channel, queue), 2)
    assert bodies(channel, queue) == [b"3", b"4"]


@pytest.mark.parametrize("multiple", [False, True])
def test_an_unknown_delivery_tag_is_refused(channel, queue, multiple):
    with closes_channel(406):
        channel.basic_ack(77, multiple=multiple)
        channel.queue_declare(queue, passive=True)


def test_acknowledging_twice_is_refused(channel, queue):
    fill(channel, queue, 1)
    tag = channel.basic_get(queue)[0].delivery_tag
    channel.basic_ack(tag)
    with closes_channel(406):
        channel.basic_ack(tag)
        channel.queue_declare(queue, passive=True)


def test_requeueing_keeps_the_place(channel, queue):
    fill(channel, queue, 3)
    got = [channel.basic_get(queue)[0].delivery_tag for _ in range(3)]
    channel.basic_reject(got[1], requeue=True)
    channel.basic_reject(got[0], requeue=True)
    eventually(lambda: count(channel, queue), 2)
    again = [channel.basic_get(queue) for _ in range(2)]
    assert [(method.redelivered, body) for method, _, body in again] == [(True, b"0"), (True, b"1")]


def test_recovering_brings_everything_back(channel, queue):
    fill(channel, queue, 2)
    channel.basic_get(queue)
    channel.basic_get(queue)
    channel.basic_recover(requeue=True)
    eventually(lambda: count(channel, queue), 2)
    assert channel.basic_get(queue)[0].redelivered


def test_recovering_without_requeue_is_not_implemented(connect):
    channel = connect().channel()
    with closes_connection(540):
        channel.basic_recover(requeue=False)


# --- consuming ---------------------------------------------------------------------------------


def test_a_consumer_gets_no_more_than_its_prefetch(connect, name):
    connection = connect()
    channel = connection.channel()
    queue = name()
    channel.queue_declare(queue, exclusive=True)
    fill(channel, queue, 5)
    channel.basic_qos(prefetch_count=2)
    got = []
    channel.basic_consume(
        queue, lambda _, method, __, body: got.append((method.delivery_tag, body))
    )
    connection.process_data_events(time_limit=0.5)
    assert [body for _, body in got] == [b"0", b"1"]
    channel.basic_ack(got[0][0])
    connection.process_data_events(time_limit=0.5)
    assert [body for _, body in got] == [b"0", b"1", b"2"]


def test_a_channel_gets_no_more_than_its_prefetch(connect, name):
    connection = connect()
    channel = connection.channel()
    queues = [name(), name()]
    channel.basic_qos(prefetch_count=3, global_qos=True)
    got = []
    for queue in queues:
        channel.queue_declare(queue, exclusive=True)
        fill(channel, queue, 3)
    for queue in queues:
        channel.basic_consume(queue, lambda _, method, __, body: got.append(method.delivery_tag))
    for expected in (3, 6):
        deadline = time.monotonic() + PATIENCE_S
        while len(got) < expected and time.monotonic() < deadline:
            connection.process_data_events(time_limit=0.1)
        connection.process_data_events(time_limit=0.5)
        assert len(got) == expected
        channel.basic_ack(got[-1], multiple=True)


def test_prefetch_in_bytes_is_not_implemented(connect):
    channel = connect().channel()
    with closes_connection(540):
        channel.basic_qos(prefetch_size=100)


def test_consumers_take_turns(connect, name):
    queue = name()
    channel = connect().channel()
    channel.queue_declare(queue)
    got: list[list[bytes]] = [[], []]
    consumers = [connect().channel() for _ in got]
    for index, consumer in enumerate(consumers):
        consumer.basic_consume(
            queue, lambda *args, index=index: got[index].append(args[3]), auto_ack=True
        )
    for number in range(6):
        channel.basic_publish("", queue, str(number).encode())
    deadline = time.monotonic() + PATIENCE_S
    while sum(map(len, got)) < 6 and time.monotonic() < deadline:
        for consumer in consumers:
            consumer.connection.process_data_events(time_limit=0.1)
    assert sorted(map(len, got)) == [3, 3]
    channel.queue_delete(queue)


def test_higher_consumer_priorities_come_first(connect, name):
    queue = name()
    channel = connect().channel()
    channel.queue_declare(queue)
    got: dict[int, list[bytes]] = {1: [], 9: []}
    consumers = []
    for priority in got:
        consumers.append(connect().channel())
        consumers[-1].basic_consume(
            queue,
            lambda *args, priority=priority: got[priority].append(args[3]),
            auto_ack=True,
            arguments={"x-priority": priority},
        )
    for number in range(4):
        channel.basic_publish("", queue, str(number).encode())
    deadline = time.monotonic() + PATIENCE_S
    while sum(map(len, got.values())) < 4 and time.monotonic() < deadline:
        for consumer in consumers:
            consumer.connection.process_data_events(time_limit=0.1)
    assert got == {1: [], 9: [b"0", b"1", b"2", b"3"]}
    channel.queue_delete(queue)


def test_an_exclusive_consumer_is_alone(connect, name):
    queue = name()
    connection = connect()
    channel = connection.channel()
    channel.queue_declare(queue, exclusive=True)
    channel.basic_consume(queue, lambda *_: None, exclusive=True)
    with closes_channel(403):
        connection.channel().basic_consume(queue, lambda *_: None)


def test_exclusive_use_is_refused_if_there_are_others(connect, name):
    queue = name()
    connection = connect()
    channel = connection.channel()
    channel.queue_declare(queue, exclusive=True)
    channel.basic_consume(queue, lambda *_: None)
    with closes_channel(403):
        connection.channel().basic_consume(queue, lambda *_: None, exclusive=True)


def test_consuming_nothing_is_not_found(channel, name):
    with closes_channel(404):
        channel.basic_consume(name(), lambda *_: None)


def test_a_consumer_tag_is_used_once(connect, queue):
    connection = connect()
    channel = connection.channel()
    made = channel.queue_declare("", exclusive=True).method.queue
    raw = pika.spec.Basic.Consume(queue=made, consumer_tag="mine")
    with closes_connection(530):
        for _ in range(2):
            channel._impl._send_method(raw)
        connection.process_data_events(time_limit=5)


def test_cancelling_an_unknown_consumer_is_fine(channel):
    channel._impl._send_method(pika.spec.Basic.Cancel(consumer_tag="nobody"))
    channel.basic_qos(prefetch_count=1)


def test_what_a_cancelled_consumer_had_can_still_be_acknowledged(channel, queue):
    fill(channel, queue, 2)
    [(method, _, _)] = collect(channel, queue, 1)
    channel._impl._send_method(pika.spec.Basic.Ack(method.delivery_tag))
    channel.cancel()
    eventually(lambda: count(channel, queue), 1)


# --- transactions ------------------------------------------------------------------------------


def test_published_messages_wait_for_the_commit(channel, queue):
    channel.tx_select()
    channel.basic_publish("", queue, b"1")
    channel.tx_rollback()
    channel.basic_publish("", queue, b"2")
    assert count(channel, queue) == 0
    channel.tx_commit()
    eventually(lambda: bodies(channel, queue), [b"2"])


def test_acknowledgements_wait_for_the_commit(connect, name):
    queue = name()
    connection = connect()
    channel = connection.channel()
    channel.queue_declare(queue)
    fill(channel, queue, 2)
    taker = connection.channel()
    taker.tx_select()
    taker.basic_ack(taker.basic_get(queue)[0].delivery_tag)
    taker.tx_commit()
    taker.basic_ack(taker.basic_get(queue)[0].delivery_tag)
    taker.close()
    eventually(lambda: count(channel, queue), 1)
    assert bodies(channel, queue) == [b"1"]
    channel.queue_delete(queue)


def test_a_rolled_back_acknowledgement_can_be_given_again(channel, queue):
    fill(channel, queue, 1)
    channel.tx_select()
    tag = channel.basic_get(queue)[0].delivery_tag
    channel.basic_ack(tag)
    channel.tx_rollback()
    channel.basic_ack(tag)
    channel.tx_commit()
    assert count(channel, queue) == 0


@pytest.mark.parametrize(
    ("exchange", "headers", "code"), [("there-is-none", {}, 404), ("", {"CC": "no list"}, 406)]
)
def test_a_message_that_cannot_be_routed_leaves_nothing_of_its_transaction(
    connect, name, exchange, headers, code
):
    connection = connect()
    channel, other = connection.channel(), connection.channel()
    queue, target = name(), name()
    for declared in (queue, target):
        channel.queue_declare(declared, exclusive=True)
    fill(channel, queue, 1)
    channel.tx_select()
    channel.basic_publish("", target, b"1")
    channel.basic_ack(channel.basic_get(queue)[0].delivery_tag)
    channel.basic_publish(exchange, target, b"2", pika.BasicProperties(headers=headers))
    with closes_channel(code):
        channel.tx_commit()
    eventually(lambda: count(other, queue), 1)
    assert count(other, target) == 0


def test_a_transaction_with_a_message_for_a_full_queue_is_refused(connect, server, name):
    connection = connect()
    channel, other = connection.channel(), connection.channel()
    queue, full = name(), name()
    channel.queue_declare(queue, exclusive=True)
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    channel.queue_declare(full, exclusive=True, arguments=arguments)
    channel.basic_publish("", full, b"there")
    channel.tx_select()
    channel.basic_publish("", queue, b"1")
    channel.basic_publish("", full, b"2")
    with closes_channel(406):
        channel.tx_commit()
    # RabbitMQ says "partial tx completion"; strom applies nothing, see ADR 10.
    eventually(lambda: count(other, queue), 0 if server.name == "strom" else 1)
    assert bodies(other, full) == [b"there"]


def test_committing_outside_a_transaction_is_refused(channel):
    with closes_channel(406):
        channel.tx_commit()


def test_a_channel_has_confirms_or_transactions(channel):
    channel.tx_select()
    with closes_channel(406):
        channel.confirm_delivery()
