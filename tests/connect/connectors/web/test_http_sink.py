"""HttpSink: records are sent to an HTTP interface."""

import json

import pytest

from strom.connect.api import (
    ConnectError,
    InvalidSettings,
    PoisonRecord,
    RetriableError,
    SinkRecord,
    TopicPartition,
)
from strom.connect.connectors.web.http_sink import HttpSink
from strom.testing.connectors import SinkDriver, SinkLaws
from tests.connect.connectors.web.web_server import Reply, web_server


@pytest.fixture
def web():
    with web_server() as server:
        server.reply = lambda asked: Reply()
        yield server


class TestHttpSink(SinkLaws):
    connector = HttpSink

    @pytest.fixture(autouse=True)
    def _server(self):
        with web_server() as self.web:
            self.taken: list[int] = []
            self.web.reply = self.take
            yield

    def take(self, asked):
        self.taken += [value["id"] for value in json.loads(asked.body)]
        return Reply(status=201)

    def settings(self, folder):
        return {"url": self.web.url, "batch.size": "4"}

    def value(self, item):
        return None, {"id": item}

    def stored(self, folder):
        return self.taken

    def take_away(self, folder):
        self.web.stop()
        return True

    def bring_back(self, folder):
        self.web.start()


def started(web, path="/", **settings):
    texts = {name.replace("_", "."): str(value) for name, value in settings.items()}
    driver = SinkDriver(HttpSink, {"url": web.url + path, **texts}, name="shop")
    driver.start([TopicPartition("t", 0)])
    return driver


def record(offset, value, key=None, partition=0):
    return SinkRecord("t", partition, offset, value, key=key)


def test_every_record_is_a_request_with_a_key_of_its_own(web):
    driver = started(web, "/customers/{id}/of/{topic}?k={key}", method="PUT")
    driver.put([record(5, {"id": "a/b"}, key="ü"), record(6, {"id": 7}, key=1)])
    driver.stop()
    assert [(asked.method, asked.path, asked.query["k"]) for asked in web.asked] == [
        ("PUT", "/customers/a%2Fb/of/t", "ü"),
        ("PUT", "/customers/7/of/t", "1"),
    ]
    assert [json.loads(asked.body) for asked in web.asked] == [{"id": "a/b"}, {"id": 7}]
    assert web.asked[0].headers["idempotency-key"] == "shop-t-0-5"
    assert web.asked[0].headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("settings", "bodies"),
    [
        ({"batch.size": 2}, [b"[1,2]", b'["x"]']),
        ({"batch.size": 5, "format": "lines"}, [b'1\n2\n"x"\n']),
        ({"batch.size": 5, "format": "text"}, [b"1\n2\nx\n"]),
        ({"format": "text"}, [b"1", b"2", b"x"]),
    ],
)
def test_records_go_in_batches_of_the_wanted_form(web, settings, bodies):
    driver = started(web, **settings)
    driver.put([record(0, 1), record(1, 2), record(2, "x")])
    driver.stop()
    assert [asked.body for asked in web.asked] == bodies


def test_after_a_failure_only_what_was_not_sent_is_sent(web):
    web.reply = lambda asked: Reply(
        status=503 if asked.body == b"2" and len(web.asked) < 4 else 200
    )
    driver = started(web)
    records = [record(offset, offset) for offset in range(4)]
    with pytest.raises(RetriableError, match="503"):
        driver.task.put(records)
    driver.put(records)
    driver.stop()
    assert [asked.body for asked in web.asked] == [b"0", b"1", b"2", b"2", b"3"]


def test_what_the_runtime_brings_again_before_a_flush_is_not_sent_twice(web):
    driver = started(web)
    records = [record(offset, offset) for offset in range(3)]
    driver.put(records)
    driver.task.close([TopicPartition("t", 0)])  # as after a failure of a later call
    driver.task.open([TopicPartition("t", 0)])
    driver.put([*records, SinkRecord("t", 0, 1, "x", original_topic="other")])
    driver.flush()
    driver.put([record(0, "after an offset reset")])
    driver.stop()
    sent = [json.loads(asked.body) for asked in web.asked]
    assert sent == [0, 1, 2, "x", "after an offset reset"]


def test_a_refused_record_is_named_by_its_place_and_the_others_are_sent(web):
    web.reply = lambda asked: Reply("bad one", status=422 if b"13" in asked.body else 200)
    driver = started(web, **{"batch.size": 10})
    records = [record(offset, offset) for offset in range(10, 16)]
    with pytest.raises(PoisonRecord, match="422: bad one") as poison:
        driver.put(records)
    assert poison.value.index == 3
    driver.put(records[:3] + records[4:])
    driver.stop()
    accepted = [body for body in (asked.body for asked in web.asked) if b"13" not in body]
    assert [number for body in accepted for number in json.loads(body)] == [10, 11, 12, 14, 15]


@pytest.mark.parametrize("status", [401, 403, 302])
def test_what_is_not_the_records_fault_fails_the_task(web, status):
    web.reply = lambda asked: Reply(status=status, headers={"Location": "/elsewhere"})
    driver = started(web)
    with pytest.raises(ConnectError, match=str(status)) as caught:
        driver.task.put([record(0, 1)])
    assert type(caught.value) is ConnectError
    driver.stop()


@pytest.mark.parametrize(
    ("choice", "methods"), [("ignore", ["POST"]), ("delete", ["DELETE", "POST"]), ("fail", [])]
)
def test_records_without_a_value_do_what_is_wanted(web, choice, methods):
    driver = started(web, "/{key}", null_values=choice, batch_size=3)
    records = [record(0, None, key="a"), record(1, 1, key="a")]
    if choice == "fail":
        with pytest.raises(PoisonRecord):
            driver.put(records)
    else:
        driver.put(records)
    driver.stop()
    assert [asked.method for asked in web.asked] == methods


def test_what_an_address_lacks_makes_a_poison_record(web):
    driver = started(web, "/{id}")
    with pytest.raises(PoisonRecord, match=r"placeholder \{id\}") as poison:
        driver.put([record(0, {"id": 1}), record(1, {"name": "x"})])
    assert poison.value.index == 1
    assert web.asked == []
    driver.stop()


@pytest.mark.parametrize(
    ("key", "segment"),
    [
        ("a/b", "a%2Fb"),
        ("%2e%2e", "%252e%252e"),
        ("..\\x", "..%5Cx"),
        ("../x", "..%2Fx"),
        ("...", "..."),
        ("a?b#c;d", "a%3Fb%23c%3Bd"),
        ("ü €", "%C3%BC%20%E2%82%AC"),
        ("a\0b\r\n", "a%00b%0D%0A"),
        (b"\xff\x00", "%FF%00"),
        (b"\xfe\x00", "%FE%00"),
    ],
)
def test_a_key_is_one_segment_of_the_path(web, key, segment):
    driver = started(web, "/customers/{key}/orders", method="PUT")
    driver.put([record(0, {}, key=key)])
    driver.stop()
    assert [asked.path for asked in web.asked] == [f"/customers/{segment}/orders"]


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/customers/{key}", ".."),
        ("/customers/{key}", "."),
        ("/customers/{key}", b".."),
        ("/customers/{key}/orders", ".."),
        ("/customers/{key}?k=v", ".."),
        ("/customers/{key}#top", ".."),
        ("/customers/.{key}", "."),
        ("/customers/{key}{key}", "."),
        ("/customers/%2e{key}", "."),
        ("/customers/{key}", ""),
        ("/customers/{key}", b""),
        ("/customers/{key}", "\ud800"),
    ],
)
def test_a_key_that_cannot_be_a_segment_of_the_path_makes_a_poison_record(web, path, key):
    driver = started(web, path, method="PUT", null_values="delete")
    for value in (1, None):
        with pytest.raises(PoisonRecord, match="key") as poison:
            driver.put([record(0, 1, key="good"), record(1, value, key=key)])
        assert poison.value.index == 1
    driver.stop()
    assert web.asked == []


def test_dots_are_refused_in_paths_only(web):
    driver = started(web, "/a.{key}.json?k={key}", method="PUT")
    driver.put([record(0, {}, key="..")])
    driver.stop()
    assert [(asked.path, asked.query) for asked in web.asked] == [("/a....json", {"k": ".."})]


@pytest.mark.parametrize("status", [404, 410])
def test_deleting_what_is_gone_succeeds_and_other_requests_do_not(web, status):
    web.reply = lambda asked: Reply(status=status if asked.path == "/gone" else 200)
    driver = started(web, "/{key}", method="PUT", null_values="delete")
    driver.put([record(0, None, key="gone"), record(1, 1, key="there")])
    with pytest.raises(PoisonRecord, match=str(status)):
        driver.put([record(2, 1, key="gone")])
    driver.stop()
    assert [(asked.method, asked.path) for asked in web.asked] == [
        ("DELETE", "/gone"),
        ("PUT", "/there"),
        ("PUT", "/gone"),
    ]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_refused_with_the_address_to_configure(web, status):
    web.reply = lambda asked: Reply(
        status=status, headers={"Location": "https://crm.example/new?token=s3cr3t"}
    )
    driver = started(web, "/old")
    with pytest.raises(ConnectError, match=r"redirects to https://crm\.example/new") as caught:
        driver.task.put([record(0, 1)])
    driver.stop()
    assert type(caught.value) is ConnectError
    assert "s3cr3t" not in str(caught.value)
    assert [(asked.method, asked.path) for asked in web.asked] == [("POST", "/old")]


def test_partitions_are_sent_side_by_side_and_each_in_order(web):
    driver = started(web, **{"max.connections": 4})
    records = [record(n, [n % 4, n], partition=n % 4) for n in range(40)]
    driver.put(records)
    driver.stop()
    sent = [json.loads(asked.body) for asked in web.asked]
    for partition in range(4):
        assert [n for p, n in sent if p == partition] == list(range(partition, 40, 4))


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"url": "example.org"}, "url"),
        ({"url": "http://x/{id"}, "url"),
        ({"method": "GET"}, "method"),
        ({"max.connections": "0"}, "max.connections"),
    ],
)
def test_wrong_settings_are_refused_by_name(wrong, name):
    with pytest.raises(InvalidSettings) as refused:
        HttpSink.settings_class.read({"url": "http://x/", **wrong})
    assert name in refused.value.problems


def test_records_of_a_recreated_topic_are_not_taken_for_those_that_were_sent(web):
    driver = started(web)
    web.failures = [Reply(), Reply(status=503)]
    partitions = [TopicPartition("t", 0)]
    with pytest.raises(RetriableError):
        driver.task.put([record(0, "old0"), record(1, "old1")])
    driver.task.close(partitions)
    driver.context._topic_id = "topic-2"
    driver.task.open(partitions)
    driver.put([record(0, "new0"), record(1, "new1")])
    driver.stop()
    assert [asked.body for asked in web.asked][-2:] == [b'"new0"', b'"new1"']
