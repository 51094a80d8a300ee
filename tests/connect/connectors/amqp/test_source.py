"""AmqpSource: messages of queues become records."""

import json

import pytest

from strom.connect.api import ConnectError, InvalidSettings, PoisonRecord, RetriableError
from strom.connect.api.schema import BYTES
from strom.connect.connectors.amqp.source import AmqpSource
from strom.testing.connectors import SourceDriver, SourceLaws


class TestAmqpSource(SourceLaws):
    connector = AmqpSource

    @pytest.fixture(autouse=True)
    def _queues(self, queues):
        self.queues = queues

    def settings(self, folder):
        return {"url": self.queues.url, "queues": self.queues.name, "topic": "t"}

    def seed(self, folder, items):
        for item in items:
            self.queues.publish(str(item))

    def item(self, record):
        return int(record.value)

    def take_away(self, folder):
        self.queues.gate.shut()
        return True

    def bring_back(self, folder):
        self.queues.gate.open()


def started(queues, /, **settings):
    texts = {name.replace("_", "."): str(value) for name, value in settings.items()}
    driver = SourceDriver(
        AmqpSource, {"url": queues.url, "queues": queues.name, "topic": "from-{queue}", **texts}
    )
    driver.start()
    return driver


def test_properties_and_headers_become_record_headers(queues):
    queues.publish(
        b"\x00\xff",
        message_id="m1",
        content_type="a/b",
        priority=3,
        timestamp=1_700_000_000,
        headers={"text": "x", "number": 5, "list": [1, 2], "nothing": None},
    )
    driver = started(queues)
    (record,) = driver.read(1)
    driver.stop()
    assert (record.topic, record.value, record.value_schema) == (
        f"from-{queues.name}",
        b"\x00\xff",
        BYTES,
    )
    assert (record.key, record.timestamp) == ("m1", 1_700_000_000_000)
    headers = {header.key: header.value for header in record.headers}
    assert headers == {
        "amqp.message-id": "m1",
        "amqp.content-type": "a/b",
        "amqp.priority": 3,
        "amqp.exchange": "",
        "amqp.routing-key": queues.name,
        "text": "x",
        "number": 5,
        "list": "[1,2]",
        "nothing": None,
    }


def test_only_what_is_delivered_is_acknowledged(queues):
    for number in range(10):
        queues.publish(str(number))
    driver = started(queues, batch_size=2)
    delivered = driver.read(2)
    driver.poll()
    driver.stop()
    assert [int(record.value) for record in delivered] == list(range(len(delivered)))
    assert queues.bodies() == [str(number).encode() for number in range(len(delivered), 10)]


def test_what_comes_again_says_so(queues):
    queues.publish("x", message_id="m")
    driver = started(queues)
    driver.read(1, deliver=False)
    driver.stop()
    again = started(queues)
    (record,) = again.read(1)
    again.stop()
    assert "amqp.redelivered" in {header.key for header in record.headers}
    assert record.key == "m"


def test_a_lost_connection_is_made_again_and_nothing_is_lost(queues):
    for number in range(6):
        queues.publish(str(number))
    driver = started(queues, batch_size=1)
    first = driver.read(1)
    late = driver.poll()
    queues.gate.shut()
    poll_often = (driver.tasks[0].poll() for _ in range(50))
    with pytest.raises(RetriableError):
        list(poll_often)
    driver.tasks[0].delivered(driver.offsets.keep(late))  # too late: they will come again
    queues.gate.open()
    found = [int(record.value) for record in first]
    while 5 not in found and len(found) < 50:
        found += [int(record.value) for record in driver.read(1)]
    driver.stop()
    # An acknowledgement may have been lost with the connection: then its message comes once more.
    assert list(dict.fromkeys(found)) == list(range(6))
    assert queues.count() == 0


def test_a_message_that_is_no_json_is_reported_and_the_others_come(queues):
    for body in ('{"a": 1}', "{", "2"):
        queues.publish(body)
    driver = started(queues, format="json")
    assert [record.value for record in driver.read(1)] == [{"a": 1}]
    with pytest.raises(PoisonRecord, match=queues.name):
        driver.read(1)
    assert [record.value for record in driver.read(1)] == [2]
    driver.stop()
    assert queues.count() == 0


def test_a_queue_that_is_not_there_is_reported_unless_it_may_be_made(queues):
    with pytest.raises(ConnectError, match="404") as raised:
        started(queues, queues="not-there-at-all")
    assert not isinstance(raised.value, RetriableError)
    driver = started(queues, queues=f"{queues.name}-made", declare="true")
    driver.stop()
    queues.channel.queue_delete(f"{queues.name}-made")


def test_a_queue_that_is_deleted_is_noticed(queues):
    queues.channel.queue_declare(f"{queues.name}-2")
    driver = started(queues, queues=f"{queues.name}-2")
    queues.channel.queue_delete(f"{queues.name}-2")
    poll_often = (driver.tasks[0].poll() for _ in range(50))
    with pytest.raises(RetriableError, match="deleted"):
        list(poll_often)
    driver.stop()


def test_a_channel_that_the_broker_closes_is_opened_again(queues):
    driver = started(queues)
    task = driver.tasks[0]
    # As after RabbitMQ's consumer_timeout, a channel alone is closed: here for an unknown tag.
    task.delivered([({"queue": queues.name}, {"session": task._session, "tag": 999})])
    poll_often = (task.poll() for _ in range(50))
    with pytest.raises(RetriableError, match=f"channel that consumes the queue {queues.name}"):
        list(poll_often)
    queues.publish(b"1")
    assert [record.value for record in driver.read(1)] == [b"1"]
    driver.stop()


def test_a_wrong_password_is_not_tried_for_ever(queues):
    with pytest.raises(ConnectError) as raised:
        started(queues, password="wrong-word")
    assert not isinstance(raised.value, RetriableError)
    assert "wrong-word" not in str(raised.value)


@pytest.mark.parametrize(
    ("key", "expected"), [("routing-key", "name"), ("correlation-id", "c"), ("none", None)]
)
def test_the_key_is_chosen(queues, key, expected):
    queues.publish("x", message_id="m", correlation_id="c")
    driver = started(queues, key=key)
    (record,) = driver.read(1)
    driver.stop()
    assert record.key == (queues.name if expected == "name" else expected)


def test_offsets_are_json(queues):
    queues.publish("x")
    driver = started(queues)
    (record,) = driver.read(1)
    driver.stop()
    assert json.loads(json.dumps(record.source_offset)) == record.source_offset


def test_queues_are_shared_among_tasks():
    connector = AmqpSource(AmqpSource.settings_class.read({"queues": "a,b,c", "topic": "t"}))
    assert connector.task_settings(2) == [{"queues": "a,c"}, {"queues": "b"}]
    assert len(connector.task_settings(9)) == 3


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"url": "http://x"}, "url"),
        ({"url": "amqp://h:port/"}, "url"),
        ({"url": "amqp://u:secret@h/"}, "url"),
        ({"quues": "q"}, "quues"),
        ({"prefetch": "70000"}, "prefetch"),
    ],
)
def test_wrong_settings_are_refused_by_name(wrong, name):
    with pytest.raises(InvalidSettings) as refused:
        AmqpSource.settings_class.read({"queues": "q", "topic": "t", **wrong})
    assert name in refused.value.problems
    assert "secret" not in str(refused.value)
