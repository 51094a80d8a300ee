"""AmqpSink: records are published, and confirmed by the broker."""

import pytest

from strom.connect.api import (
    ConnectError,
    Header,
    InvalidSettings,
    PoisonRecord,
    RetriableError,
    SinkRecord,
    TopicPartition,
)
from strom.connect.api.schema import STRING
from strom.connect.connectors.amqp.sink import AmqpSink
from strom.testing.connectors import SinkDriver, SinkLaws


class TestAmqpSink(SinkLaws):
    connector = AmqpSink

    @pytest.fixture(autouse=True)
    def _queues(self, queues):
        self.queues = queues

    def settings(self, folder):
        return {"url": self.queues.url, "routing.key": self.queues.name}

    def value(self, item):
        return STRING, str(item)

    def stored(self, folder):
        return [int(body) for body in self.queues.bodies()]

    def take_away(self, folder):
        self.queues.gate.shut()
        return True

    def bring_back(self, folder):
        self.queues.gate.open()


def started(queues, **settings):
    texts = {name.replace("_", "."): str(value) for name, value in settings.items()}
    driver = SinkDriver(AmqpSink, {"url": queues.url, "routing.key": queues.name, **texts})
    driver.start([TopicPartition("t", 0)])
    return driver


def record(offset, value, headers=(), **more):
    return SinkRecord("t", 0, offset, value, headers=tuple(headers), **more)


def test_headers_become_properties(queues):
    driver = started(queues)
    headers = [
        Header("amqp.content-type", "a/b"),
        Header("amqp.priority", 4),
        Header("amqp.exchange", "where it came from"),
        Header("number", 5),
        Header("list", [1]),
    ]
    driver.put([record(3, {"ü": 1}, headers, timestamp=1_700_000_000_999)])
    driver.stop()
    _, properties, body = queues.channel.basic_get(queues.name, auto_ack=True)
    assert body.decode() == '{"ü":1}'
    assert properties.content_type == "a/b"
    assert properties.priority == 4
    assert properties.delivery_mode == 2
    assert properties.timestamp == 1_700_000_000
    assert properties.message_id == "t-0-3"
    assert properties.headers == {"number": 5, "list": "[1]"}


def test_bodies_are_what_the_values_are(queues):
    driver = started(queues)
    driver.put([record(0, b"\x00"), record(1, "ü"), record(2, [1]), record(3, None)])
    driver.stop()
    assert queues.bodies() == [b"\x00", "ü".encode(), b"[1]", b""]


def test_routing_keys_are_filled_from_records(queues):
    driver = started(queues, exchange="amq.topic", routing_key="de.{city}")
    queues.channel.queue_bind(queues.name, "amq.topic", "de.bonn")
    with pytest.raises(PoisonRecord, match=r"de\.kiel") as poison:
        driver.put([record(0, {"city": "bonn"}), record(1, {"city": "kiel"})])
    assert poison.value.index == 1
    with pytest.raises(PoisonRecord, match="city") as poison:
        driver.put([record(0, {"city": "bonn"}), record(2, {"town": "bonn"})])
    assert poison.value.index == 1
    driver.put([record(0, {"city": "bonn"}), record(3, {"city": "bonn"})])
    driver.stop()
    assert len(queues.bodies()) == 2  # the first one was not published again


def test_records_of_a_recreated_topic_are_not_taken_for_those_that_were_published(queues):
    driver = started(queues, exchange="amq.topic", routing_key="of.{city}")
    queues.channel.queue_bind(queues.name, "amq.topic", "of.bonn")
    with pytest.raises(PoisonRecord):
        driver.put([record(0, {"city": "bonn"}), record(1, {"city": "kiel"})])
    driver.task.close([TopicPartition("t", 0)])
    driver.context._topic_id = "topic-2"
    driver.task.open([TopicPartition("t", 0)])
    driver.put([record(0, {"city": "bonn", "new": True})])
    driver.stop()
    assert queues.bodies() == [b'{"city":"bonn"}', b'{"city":"bonn","new":true}']


def test_what_no_queue_wants_may_be_dropped(queues):
    driver = started(queues, exchange="amq.topic", routing_key="nobody.{key}", unroutable="drop")
    driver.put([record(0, "x", key="k")])
    driver.stop()


def test_a_routing_key_that_is_too_long_is_a_poison_record(queues):
    driver = started(queues, routing_key="{key}")
    with pytest.raises(PoisonRecord, match="255"):
        driver.put([record(0, "x", key="k" * 256)])
    driver.stop()


def test_an_exchange_that_is_not_there_is_reported(queues):
    driver = started(queues, exchange="not-there-at-all")
    with pytest.raises(ConnectError, match="404") as raised:
        driver.task.put([record(0, "x")])
    assert not isinstance(raised.value, RetriableError)
    driver.stop()


def test_a_broker_that_refuses_messages_is_asked_again(queues):
    name = f"{queues.name}-full"
    arguments = {"x-max-length": 2, "x-overflow": "reject-publish"}
    queues.channel.queue_declare(name, arguments=arguments)
    driver = started(queues, routing_key=name)
    records = [record(number, str(number)) for number in range(4)]
    with pytest.raises(RetriableError, match="rejected 2 messages"):
        driver.task.put(records)
    queues.channel.queue_purge(name)
    driver.put(records)
    driver.stop()
    bodies = [queues.channel.basic_get(name, auto_ack=True)[2] for _ in range(2)]
    queues.channel.queue_delete(name)
    assert bodies == [b"2", b"3"]


def test_thousands_are_confirmed_in_one_go(queues):
    driver = started(queues)
    driver.put([record(number, str(number)) for number in range(3000)])
    assert queues.count() == 3000
    driver.stop()


def test_a_lost_connection_is_made_again(queues):
    driver = started(queues)
    driver.put([record(0, "0")])
    queues.gate.shut()
    with pytest.raises(RetriableError):
        driver.task.put([record(1, "1")])
    queues.gate.open()
    driver.put([record(1, "1")])
    driver.stop()
    assert queues.bodies() == [b"0", b"1"]


def test_a_wrong_password_is_not_tried_for_ever(queues):
    with pytest.raises(ConnectError) as raised:
        started(queues, password="wrong-word")
    assert not isinstance(raised.value, RetriableError)
    assert "wrong-word" not in str(raised.value)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"url": "amqp://"}, "url"),
        ({"routing.key": "{"}, "routing.key"),
        ({"routingkey": "x"}, "routingkey"),
        ({"unroutable": "maybe"}, "unroutable"),
    ],
)
def test_wrong_settings_are_refused_by_name(wrong, name):
    with pytest.raises(InvalidSettings) as refused:
        AmqpSink.settings_class.read({"routing.key": "q", **wrong})
    assert name in refused.value.problems
