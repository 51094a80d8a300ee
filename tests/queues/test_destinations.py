"""Where a message goes, decided before anything is published."""

import pytest

from strom.broker.queues.message_properties import read_properties
from strom.queues.definitions import EXCHANGE, QUEUE, Binding, ExchangeDefinition, QueueDefinition
from strom.queues.delays import DELAY
from strom.queues.destinations import find_destinations
from strom.queues.errors import QueueError, Reason
from strom.queues.message import Message
from strom.queues.queue import Queue
from strom.queues.virtual_host import TO_TOPIC, VirtualHost
from strom.wire.amqp.content import BasicProperties, encode_properties
from tests.queues.memory_store import MemoryStore, RememberingHost


def vhost_with(*queues):
    """A virtual host with queues bound to the direct exchange `x` by their names."""
    vhost = VirtualHost("/")
    vhost.add_exchange(ExchangeDefinition("/", "x", "direct"))
    for name in queues:
        vhost.add_queue(Queue(QueueDefinition("/", name), MemoryStore(), RememberingHost()))
        vhost.bind(Binding("/", "x", QUEUE, name, name))
    return vhost


def message(key, exchange="x", **headers):
    properties = encode_properties(BasicProperties(headers=headers or None))
    return Message(exchange, key, read_properties(properties), b"m", 0)


def names(found):
    return [queue.name for queue in found.queues]


def test_a_message_is_routed_by_its_key():
    found = find_destinations(vhost_with("a", "b"), message("b"))
    assert (names(found), found.is_delayed, found.feeding) == (["b"], False, ())


def test_an_unknown_exchange_is_an_error():
    with pytest.raises(QueueError) as refused:
        find_destinations(vhost_with(), message("a", exchange="missing"))
    assert refused.value.reason is Reason.NOT_FOUND


def test_copies_go_to_more_queues_each_once():
    found = find_destinations(vhost_with("a", "b", "c"), message("a", CC=["b", "a"], BCC=["c"]))
    assert names(found) == ["a", "b", "c"]


def test_consumers_see_copies_but_no_blind_copies():
    found = find_destinations(vhost_with("a", "b"), message("a", CC=["b"], BCC=["b"], other=1))
    assert found.message.headers == {"CC": ["b"], "other": 1}


@pytest.mark.parametrize("header", ["CC", "BCC"])
@pytest.mark.parametrize("value", ["b", [1]])
def test_copies_must_be_a_list_of_keys(header, value):
    with pytest.raises(QueueError, match=f"{header} must be a list of routing keys"):
        find_destinations(vhost_with("a"), message("a", **{header: value}))


def test_a_delayed_message_is_routed_later():
    found = find_destinations(vhost_with("a"), message("a", **{DELAY: 10}))
    assert (found.is_delayed, names(found)) == (True, [])
    with pytest.raises(QueueError):
        find_destinations(vhost_with("a"), message("a", exchange="missing", **{DELAY: 10}))


def test_a_delay_of_nothing_is_none():
    assert names(find_destinations(vhost_with("a"), message("a", **{DELAY: 0}))) == ["a"]


def test_exchanges_on_the_way_feed_their_topics():
    vhost = vhost_with("a")
    fed = ExchangeDefinition("/", "fed", "fanout", arguments={TO_TOPIC: "t"})
    vhost.add_exchange(fed)
    vhost.bind(Binding("/", "x", EXCHANGE, "fed", "a"))
    assert [one.name for one in find_destinations(vhost, message("a")).feeding] == ["fed"]
    assert find_destinations(vhost, message("b")).feeding == ()
