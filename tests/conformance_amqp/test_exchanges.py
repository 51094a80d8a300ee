"""Exchanges: declaring, the four kinds, bindings between them, alternates."""

import pika
import pytest

from tests.conformance_amqp.asking import (
    bodies,
    closes_channel,
    closes_connection,
    count,
    eventually,
)


def bound(channel, name, exchange, *keys, **arguments):
    queue = name("q")
    channel.queue_declare(queue, exclusive=True)
    for key in keys:
        channel.queue_bind(queue, exchange, key, arguments=arguments or None)
    return queue


def test_the_default_exchange_leads_to_the_queue_of_that_name(channel, name):
    queue = name()
    channel.queue_declare(queue, exclusive=True)
    channel.basic_publish("", queue, b"a")
    channel.basic_publish("", name("nobody"), b"b")
    eventually(lambda: bodies(channel, queue), [b"a"])


def test_a_direct_exchange_compares_keys(channel, name):
    exchange = name("x")
    channel.exchange_declare(exchange, "direct", auto_delete=True)
    one = bound(channel, name, exchange, "info", "error")
    other = bound(channel, name, exchange, "error")
    for key in ("info", "error", "debug"):
        channel.basic_publish(exchange, key, key.encode())
    eventually(lambda: (count(channel, one), count(channel, other)), (2, 1))
    assert bodies(channel, one) == [b"info", b"error"]
    assert bodies(channel, other) == [b"error"]


def test_a_fanout_exchange_sends_to_every_queue_once(channel, name):
    exchange = name("x")
    channel.exchange_declare(exchange, "fanout", auto_delete=True)
    queues = [bound(channel, name, exchange, "a", "b") for _ in range(3)]
    channel.basic_publish(exchange, "whatever", b"m")
    eventually(lambda: [count(channel, queue) for queue in queues], [1, 1, 1])
    assert [bodies(channel, queue) for queue in queues] == [[b"m"]] * 3


@pytest.mark.parametrize(
    ("pattern", "key", "fits"),
    [
        ("*.orange.*", "quick.orange.rabbit", True),
        ("*.orange.*", "orange", False),
        ("*.orange.*", "quick.orange.male.rabbit", False),
        ("lazy.#", "lazy", True),
        ("lazy.#", "lazy.orange.male.rabbit", True),
        ("#", "", True),
        ("#", "a.b.c", True),
        ("*", "", False),
        ("*", "a", True),
        ("*", "a.b", False),
        ("#.b", "b", True),
        ("#.b", "a.a.b", True),
        ("a.#.b", "a.b", True),
        ("a.#.#.b", "a.x.b", True),
        ("a.*.#", "a", False),
        ("a..b", "a..b", True),
        ("a.*.b", "a..b", True),
    ],
)
def test_a_topic_exchange_knows_words(channel, name, pattern, key, fits):
    exchange = name("x")
    channel.exchange_declare(exchange, "topic", auto_delete=True)
    queue = bound(channel, name, exchange, pattern)
    channel.confirm_delivery()
    channel.basic_publish(exchange, key, b"m")
    assert bodies(channel, queue) == [b"m"] * fits


@pytest.mark.parametrize(
    ("arguments", "headers", "fits"),
    [
        ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1, "b": "x", "c": 3}, True),
        ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1}, False),
        ({"x-match": "any", "a": 1, "b": "x"}, {"b": "x"}, True),
        ({"x-match": "any", "a": 1}, {"a": 2}, False),
        ({"a": 1}, {"a": 1}, True),
        ({"x-match": "all"}, {}, True),
        ({"x-match": "any"}, {"a": 1}, False),
        ({"x-match": "all", "a": None}, {"a": "anything"}, True),
        ({"x-match": "all", "x-a": 1, "b": 1}, {"b": 1}, True),
        ({"x-match": "all-with-x", "x-a": 1, "b": 1}, {"b": 1}, False),
        ({"x-match": "any-with-x", "x-a": 1, "b": 1}, {"x-a": 1}, True),
        ({"x-match": "any", "x-a": 1}, {"x-a": 1}, False),
    ],
)
def test_a_headers_exchange_compares_headers(channel, name, arguments, headers, fits):
    exchange = name("x")
    channel.exchange_declare(exchange, "headers", auto_delete=True)
    queue = bound(channel, name, exchange, "", **arguments)
    channel.confirm_delivery()
    channel.basic_publish(exchange, "", b"m", pika.BasicProperties(headers=headers))
    assert bodies(channel, queue) == [b"m"] * fits


def test_an_unknown_form_of_headers_matching_is_refused(channel, name):
    exchange = name("x")
    channel.exchange_declare(exchange, "headers", auto_delete=True)
    queue = name()
    channel.queue_declare(queue, exclusive=True)
    with closes_channel(406):
        channel.queue_bind(queue, exchange, "", arguments={"x-match": "some"})


@pytest.mark.parametrize(
    "exchange", ["amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match"]
)
def test_some_exchanges_are_always_there(channel, exchange):
    channel.exchange_declare(exchange, passive=True)


def test_messages_pass_from_exchange_to_exchange_and_come_once(channel, name):
    first, second, third = (name("x") for _ in range(3))
    for exchange in (first, second, third):
        channel.exchange_declare(exchange, "fanout")
    channel.exchange_bind(second, first)
    channel.exchange_bind(third, second)
    channel.exchange_bind(first, third)
    queue = bound(channel, name, third, "")
    channel.queue_bind(queue, first, "")
    channel.confirm_delivery()
    channel.basic_publish(first, "", b"m")
    assert bodies(channel, queue) == [b"m"]
    channel.exchange_unbind(second, first)
    channel.queue_unbind(queue, first, "")
    channel.basic_publish(first, "", b"m")
    assert bodies(channel, queue) == []


def test_an_alternate_exchange_takes_what_matches_nothing(channel, name):
    other, exchange = name("other"), name("x")
    channel.exchange_declare(other, "fanout")
    channel.exchange_declare(exchange, "direct", arguments={"alternate-exchange": other})
    wanted = bound(channel, name, exchange, "known")
    rest = bound(channel, name, other, "")
    channel.confirm_delivery()
    channel.basic_publish(exchange, "known", b"1")
    channel.basic_publish(exchange, "unknown", b"2")
    assert bodies(channel, wanted) == [b"1"]
    assert bodies(channel, rest) == [b"2"]


def test_declaring_the_same_again_is_fine(channel, name):
    exchange = name("x")
    for _ in range(2):
        channel.exchange_declare(exchange, "topic", durable=True)
    channel.exchange_delete(exchange)


@pytest.mark.parametrize(
    "change",
    [{"exchange_type": "fanout"}, {"durable": True}, {"auto_delete": True}, {"internal": True}],
)
def test_declaring_it_otherwise_is_refused(channel, name, change):
    exchange = name("x")
    channel.exchange_declare(exchange, "direct")
    with closes_channel(406):
        channel.exchange_declare(exchange, **{"exchange_type": "direct", **change})


def test_an_unknown_type_closes_the_connection(channel, name):
    with closes_connection(503):
        channel.exchange_declare(name("x"), "nonsense")


def test_a_passive_declare_of_nothing_is_not_found(channel, name):
    with closes_channel(404):
        channel.exchange_declare(name("x"), passive=True)


def test_names_with_the_reserved_prefix_are_refused(channel):
    with closes_channel(403):
        channel.exchange_declare("amq.mine", "direct")


def test_deleting_nothing_is_fine(channel, name):
    channel.exchange_delete(name("x"))


def test_deleting_the_default_exchange_is_refused(channel):
    with closes_channel(403):
        channel.exchange_delete("")


def test_the_default_exchange_cannot_be_bound(channel, name):
    queue = name()
    channel.queue_declare(queue, exclusive=True)
    with closes_channel(403):
        channel.queue_bind(queue, "", "key")


def test_deleting_a_used_exchange_if_unused_is_refused(channel, name):
    exchange = name("x")
    channel.exchange_declare(exchange, "direct")
    bound(channel, name, exchange, "k")
    with closes_channel(406):
        channel.exchange_delete(exchange, if_unused=True)


def test_an_exchange_goes_with_its_last_binding_if_asked_to(channel, name):
    exchange = name("x")
    channel.exchange_declare(exchange, "direct", auto_delete=True)
    queue = bound(channel, name, exchange, "k")
    channel.exchange_declare(exchange, passive=True)
    channel.queue_unbind(queue, exchange, "k")
    with closes_channel(404):
        channel.exchange_declare(exchange, passive=True)


def test_publishing_to_an_internal_exchange_is_refused(channel, name):
    exchange = name("x")
    channel.exchange_declare(exchange, "direct", internal=True)
    channel.confirm_delivery()
    with closes_channel(403):
        channel.basic_publish(exchange, "k", b"m")


def test_publishing_to_nothing_is_not_found(channel, name):
    channel.confirm_delivery()
    with closes_channel(404):
        channel.basic_publish(name("x"), "k", b"m")


def test_binding_to_nothing_is_not_found(channel, name):
    queue = name()
    channel.queue_declare(queue, exclusive=True)
    with closes_channel(404):
        channel.queue_bind(queue, name("x"), "k")


def test_binding_twice_is_one_binding(channel, name):
    exchange = name("x")
    channel.exchange_declare(exchange, "direct")
    queue = bound(channel, name, exchange, "k", "k")
    channel.queue_unbind(queue, exchange, "k")
    channel.confirm_delivery()
    channel.basic_publish(exchange, "k", b"m")
    assert bodies(channel, queue) == []


def test_unbinding_what_was_not_bound_is_fine(channel, name):
    exchange = name("x")
    channel.exchange_declare(exchange, "direct")
    queue = bound(channel, name, exchange, "k")
    channel.queue_unbind(queue, exchange, "other")


def test_a_message_may_name_further_keys(channel, name):
    exchange = name("x")
    channel.exchange_declare(exchange, "direct")
    one, two, three = (bound(channel, name, exchange, key) for key in ("a", "b", "c"))
    channel.confirm_delivery()
    properties = pika.BasicProperties(headers={"CC": ["b"], "BCC": ["c"]})
    channel.basic_publish(exchange, "a", b"m", properties)
    got = channel.basic_get(one, auto_ack=True)
    assert got[1].headers == {"CC": ["b"]}
    assert bodies(channel, two) == [b"m"]
    assert bodies(channel, three) == [b"m"]
