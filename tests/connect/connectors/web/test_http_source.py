"""HttpSource: what an HTTP interface answers becomes records."""

import json
import time
from typing import Any

import pytest

from strom.connect.api import ConnectError, InvalidSettings, RetriableError
from strom.connect.connectors.web import progress
from strom.connect.connectors.web.http_source import HttpSource
from strom.testing.connectors import SourceDriver, SourceLaws, StoredOffsets
from tests.connect.connectors.web.web_server import Reply, web_server


@pytest.fixture
def web():
    with web_server() as server:
        yield server


class _HttpLaws(SourceLaws):
    """The other side is a server that each test has for its own."""

    connector = HttpSource

    @pytest.fixture(autouse=True)
    def _server(self):
        with web_server() as self.web:
            self.items: list[int] = []
            self.web.reply = self.answer
            yield

    def answer(self, asked):
        raise NotImplementedError

    def settings(self, folder):
        return {"url": f"{self.web.url}/items", "topic": "items", "poll.interval.ms": "10"}

    def seed(self, folder, items):
        self.items += items

    def item(self, record):
        return record.value["id"]

    def take_away(self, folder):
        self.web.stop()
        return True

    def bring_back(self, folder):
        self.web.start()


class TestIncremental(_HttpLaws):
    """The server gives again what is as new as the newest, as one that knows only seconds must."""

    def settings(self, folder):
        return {
            **super().settings(folder),
            "incremental.pointer": "/at",
            "incremental.parameter": "since",
            "incremental.initial": "0",
        }

    def answer(self, asked):
        rows = [{"id": item, "at": item // 4} for item in self.items]
        return Reply(json.dumps([row for row in rows if row["at"] >= int(asked.query["since"])]))


class TestIncrementalByNumberedPages(_HttpLaws):
    """The server cannot be asked for what is newer."""

    def settings(self, folder):
        return {
            **super().settings(folder),
            "incremental.pointer": "/id",
            "records.pointer": "/data/rows",
            "paging": "page",
            "paging.size": "4",
        }

    def answer(self, asked):
        size = int(asked.query["limit"])
        start = (int(asked.query["page"]) - 1) * size
        rows = [{"id": item} for item in self.items[start : start + size]]
        return Reply(json.dumps({"data": {"rows": rows}}))


def started(web, offsets=None, **settings):
    texts = {name.replace("_", "."): str(value) for name, value in settings.items()}
    driver = SourceDriver(
        HttpSource,
        {"url": f"{web.url}/items", "topic": "t", "poll.interval.ms": "10", **texts},
        offsets,
    )
    driver.start()
    return driver


def ids(records):
    return [record.value["id"] for record in records]


def page_of(numbers, **more):
    return {"rows": [{"id": number} for number in numbers], **more}


def linked(asked, url):
    page = int(asked.query.get("p", 0))
    following = f"/items?p={page + 1}" if page < 3 else None
    return Reply(json.dumps(page_of(range(page * 3, page * 3 + 3), next=following)))


def header_linked(asked, url):
    page = int(asked.query.get("p", 0))
    links = '<http://other.example/>; rel="prev"'
    if page < 3:
        links += f', <{url}/items?p={page + 1}>; rel="next"'
    return Reply(json.dumps(page_of(range(page * 3, page * 3 + 3))), headers={"Link": links})


def with_cursor(asked, url):
    page = int(asked.query.get("after", "c0")[1:])
    cursor = f"c{page + 1}" if page < 3 else ""
    return Reply(json.dumps(page_of(range(page * 3, page * 3 + 3), cursor=cursor)))


def by_offset(asked, url):
    start = int(asked.query["offset"])
    return Reply(json.dumps(page_of(range(start, min(start + 5, 12)))))


@pytest.mark.parametrize(
    ("server", "settings"),
    [
        (linked, {"paging": "link", "paging.pointer": "/next"}),
        (header_linked, {"paging": "header"}),
        (
            with_cursor,
            {"paging": "cursor", "paging.pointer": "/cursor", "paging.parameter": "after"},
        ),
        (by_offset, {"paging": "offset"}),
    ],
)
def test_pages_are_followed_and_gone_on_with_after_a_restart(web, server, settings):
    web.reply = lambda asked: server(asked, web.url)
    settings = {**settings, "records.pointer": "/rows", "poll.interval.ms": "60000"}
    driver = started(web, **settings)
    records = driver.read(12)
    driver.stop()
    assert ids(records) == list(range(12))
    for delivered in (4, 6, 11):
        offsets = StoredOffsets()
        offsets.keep(records[:delivered])
        again = started(web, offsets, **settings)
        assert ids(again.read(12 - delivered)) == list(range(delivered, 12))
        assert again.poll() == []
        again.stop()


INCREMENTAL = {
    "incremental.pointer": "/at",
    "incremental.parameter": "since",
    "incremental.initial": "0",
}


def newer_or_as_new(rows):
    """An interface that returns again what is exactly as new as what it is asked for."""
    return lambda asked: Reply(
        json.dumps([row for row in rows if row["at"] >= int(asked.query["since"])])
    )


def test_any_number_of_records_with_the_newest_value_is_delivered_once(web):
    rows = [{"id": number, "at": 7} for number in range(1000)]
    web.reply = newer_or_as_new(rows)
    driver = started(web, **INCREMENTAL)
    assert ids(driver.read(1000)) == list(range(1000))
    assert [driver.poll() for _ in range(3)] == [[], [], []]
    rows.append({"id": 1000, "at": 7})
    assert ids(driver.read(1)) == [1000]
    driver.stop()
    rows.append({"id": 1001, "at": 7})
    again = started(web, driver.offsets, **INCREMENTAL)
    assert ids(again.read(1)) == [1001]
    assert [again.poll() for _ in range(3)] == [[], [], []]
    rows.append({"id": 1002, "at": 8})
    assert ids(again.read(1)) == [1002]
    again.stop()


def test_offsets_hold_few_bytes_for_each_record_with_the_newest_value(web):
    web.reply = newer_or_as_new([{"id": number, "at": 7} for number in range(1000)])
    driver = started(web, **INCREMENTAL)
    records = driver.read(1000)
    driver.stop()
    assert len(json.dumps(records[-1].source_offset)) < 1000 * 17
    # Those in between share what they hold: else a large page would need memory by its square.
    distinct = {id(record.source_offset) for record in records}
    assert len(distinct) < 300


def test_after_a_crash_within_a_large_page_nothing_is_left_out(web):
    web.reply = newer_or_as_new([{"id": number, "at": 7} for number in range(1000)])
    driver = started(web, **INCREMENTAL)
    records = driver.read(1000)
    driver.stop()
    for delivered in (100, 300, 999):
        offsets = StoredOffsets()
        offsets.keep(records[:delivered])
        again = started(web, offsets, **INCREMENTAL)
        found = ids(again.read(1000 - delivered))
        assert found == list(range(1000 - len(found), 1000))
        assert len(found) == 1000 - min(delivered, 200)
        again.stop()


def test_more_records_with_the_newest_value_than_can_be_known_again_are_refused(web, monkeypatch):
    monkeypatch.setattr(progress, "MAX_AT_NEWEST", 50)
    rows = [{"id": number, "at": 7} for number in range(80)]
    web.reply = newer_or_as_new(rows)
    driver = started(web, **INCREMENTAL)
    assert ids(driver.read(80)) == list(range(80))
    driver.stop()
    rows.append({"id": 80, "at": 7})
    for _ in range(2):  # and after a restart
        again = started(web, driver.offsets, **INCREMENTAL)
        with pytest.raises(ConnectError, match=r"More than 50 records .* incremental\.pointer /at"):
            again.tasks[0].poll()
        again.stop()


def test_an_interface_that_returns_only_newer_records_may_have_any_number_of_equal_ones(
    web, monkeypatch
):
    monkeypatch.setattr(progress, "MAX_AT_NEWEST", 50)
    rows = [{"id": number, "at": 7} for number in range(80)]
    web.reply = lambda asked: Reply(
        json.dumps([row for row in rows if row["at"] > int(asked.query["since"])])
    )
    driver = started(web, **INCREMENTAL)
    assert ids(driver.read(80)) == list(range(80))
    rows.append({"id": 80, "at": 8})
    assert ids(driver.read(1)) == [80]
    driver.stop()


def test_offsets_of_version_0_1_0_are_read(web):
    rows = [{"id": number, "at": 7} for number in range(4)]
    web.reply = newer_or_as_new(rows)
    offsets = StoredOffsets()
    offsets._offsets[json.dumps({"url": f"{web.url}/items"})] = json.dumps(
        {
            "done": True,
            "newest": 7,
            "at_newest": [progress.digest_of(row) for row in rows[:3]],
            "since": 5,
            "at_since": ["0123456789abcdef01234567"],
        }
    )
    driver = started(web, offsets, **INCREMENTAL)
    assert ids(driver.read(1)) == [3]
    driver.stop()


CURSORS = {"paging": "cursor", "paging.pointer": "/cursor", "paging.parameter": "after"}


@pytest.mark.parametrize(
    ("following", "delivered"),
    [
        ({None: "a", "a": "b", "b": "a"}, [None, "a", "b"]),
        ({None: "a", "a": "b", "b": "c", "c": "b"}, [None, "a", "b", "c"]),
    ],
)
def test_cursors_that_repeat_are_refused_and_no_page_is_delivered_twice(web, following, delivered):
    def reply(asked):
        page = asked.query.get("after")
        return Reply(json.dumps({"rows": [{"id": page}], "cursor": following[page]}))

    web.reply = reply
    settings = {**CURSORS, "records.pointer": "/rows"}
    driver = started(web, **settings)
    assert ids(driver.read(len(delivered))) == delivered
    driver.stop()
    for _ in range(2):  # and after a restart
        again = started(web, driver.offsets, **settings)
        with pytest.raises(ConnectError, match="was already requested in this round"):
            again.tasks[0].poll()
        again.stop()
    assert len(web.asked) == len(delivered)


def test_links_that_lead_back_are_refused(web):
    web.reply = lambda asked: Reply(json.dumps(page_of([1], next="/items")))
    driver = started(
        web, **{"paging": "link", "paging.pointer": "/next", "records.pointer": "/rows"}
    )
    assert ids(driver.read(1)) == [1]
    with pytest.raises(ConnectError, match="was already requested in this round"):
        driver.tasks[0].poll()
    driver.stop()


@pytest.mark.parametrize("last", [[], [3]])
def test_a_page_with_its_own_cursor_is_the_last(web, last):
    """As interfaces do whose cursor is where to go on later."""
    rows = {"c0": [1, 2], "c1": last}
    web.reply = lambda asked: Reply(
        json.dumps(page_of(rows[asked.query.get("after", "c0")], cursor="c1"))
    )
    driver = started(web, **CURSORS, **{"records.pointer": "/rows"})
    assert ids(driver.read(2 * len([1, 2, *last]))) == [1, 2, *last, 1, 2, *last]  # two rounds
    driver.stop()


def test_links_to_other_servers_are_not_followed(web):
    web.reply = lambda asked: Reply(json.dumps(page_of([1], next="http://127.0.0.2:9/items")))
    driver = started(
        web, **{"paging": "link", "paging.pointer": "/next", "records.pointer": "/rows"}
    )
    assert ids(driver.read(2)) == [1, 1]  # two rounds, of one page each
    driver.stop()


def test_pages_without_end_are_left_in_the_end(web):
    web.reply = lambda asked: Reply(json.dumps(page_of([int(asked.query["page"])])))
    driver = started(web, **{"paging": "page", "records.pointer": "/rows", "paging.max.pages": 3})
    assert ids(driver.read(6)) == [1, 2, 3, 1, 2, 3]
    driver.stop()


def test_an_unchanged_answer_is_asked_for_by_its_tag_and_gives_no_records(web):
    state: dict[str, Any] = {"tag": '"1"', "rows": [{"id": 1}]}

    def reply(asked):
        if asked.headers.get("if-none-match") == state["tag"]:
            return Reply(status=304)
        return Reply(json.dumps(state["rows"]), headers={"ETag": state["tag"]})

    web.reply = reply
    driver = started(web)
    assert ids(driver.read(1)) == [1]
    assert [driver.poll() for _ in range(3)] == [[], [], []]
    driver.stop()
    again = started(web, driver.offsets)
    assert again.poll() == []
    state.update(tag='"2"', rows=[{"id": 1}, {"id": 2}])
    assert ids(again.read(2)) == [1, 2]
    again.stop()
    assert web.asked[1].headers["if-none-match"] == '"1"'


def test_an_unchanged_answer_is_known_without_a_tag_too(web):
    web.reply = lambda asked: Reply('[{"id": 1}]', headers={"Last-Modified": "then"})
    driver = started(web)
    assert ids(driver.read(1)) == [1]
    assert driver.poll() == []
    assert web.asked[-1].headers["if-modified-since"] == "then"
    driver.stop()
    again = started(web, driver.offsets)
    assert again.poll() == []
    again.stop()
    repeating = started(web, unchanged="repeat")
    assert ids(repeating.read(3)) == [1, 1, 1]
    repeating.stop()


@pytest.mark.parametrize("failure", [Reply(status=503), Reply(status=429), None])
def test_a_server_that_is_busy_or_hangs_up_is_asked_again(web, failure):
    web.failures = [failure]
    web.reply = lambda asked: Reply('[{"id": 1}]')
    driver = started(web)
    with pytest.raises(RetriableError):
        driver.tasks[0].poll()
    assert ids(driver.read(1)) == [1]
    driver.stop()


def test_a_server_is_left_alone_for_as_long_as_it_wants(web):
    web.failures = [Reply(status=429, headers={"Retry-After": "1"})]
    web.reply = lambda asked: Reply('[{"id": 1}]')
    driver = started(web)
    began = time.monotonic()
    assert ids(driver.read(1)) == [1]
    assert time.monotonic() - began >= 1
    assert len(web.asked) == 2
    driver.stop()


def test_no_more_requests_are_made_than_allowed(web):
    web.reply = lambda asked: Reply(json.dumps(page_of([int(asked.query["page"])])))
    driver = started(
        web, **{"paging": "page", "records.pointer": "/rows", "requests.per.second": 20}
    )
    began = time.monotonic()
    driver.read(6)
    assert time.monotonic() - began >= 5 / 20
    driver.stop()


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (Reply("no such thing", status=404), "404.*no such thing"),
        (Reply("<html>"), "JSON.*<html>"),
        (Reply('{"a": 1}'), "no value at /rows"),
        (Reply("[" + "1," * 600 + "1]"), "max.response.bytes"),
    ],
)
def test_what_asking_again_does_not_change_is_reported(web, reply, text):
    web.reply = lambda asked: reply
    driver = started(web, **{"records.pointer": "/rows", "max.response.bytes": 1000})
    with pytest.raises(ConnectError, match=text) as told:
        driver.tasks[0].poll()
    assert not isinstance(told.value, RetriableError)
    driver.stop()


def test_credentials_and_headers_go_along(web):
    web.reply = lambda asked: Reply("[]")
    for settings in (
        {"auth.type": "bearer", "auth.token": "abc", "headers": "X-Team: a, b | Accept: x/y"},
        {"auth.type": "basic", "auth.user": "u", "auth.password": "p"},
    ):
        driver = started(web, **settings)
        driver.poll()
        driver.stop()
    assert web.asked[0].headers["authorization"] == "Bearer abc"
    assert web.asked[0].headers["x-team"] == "a, b"
    assert web.asked[0].headers["accept"] == "x/y"
    assert web.asked[1].headers["authorization"] == "Basic dTpw"


def test_keys_come_from_records_and_texts_may_be_records(web):
    web.reply = lambda asked: Reply('{"id": {"n": 7}}')
    driver = started(web, **{"key.pointer": "/id/n"})
    assert [record.key for record in driver.read(1)] == [7]
    driver.stop()
    web.reply = lambda asked: Reply("one\ntwo\n")
    driver = started(web, format="lines")
    assert [record.value for record in driver.read(2)] == ["one", "two"]
    driver.stop()


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"url": "ftp://x"}, "url"),
        ({"url": "http://u:secret@x/"}, "url"),
        ({"url": "http://["}, "url"),
        ({"records.pointer": "data"}, "records.pointer"),
        ({"paging": "cursor", "paging.pointer": "/c"}, "paging.parameter"),
        ({"paging": "link"}, "paging.pointer"),
        ({"auth.type": "bearer"}, "auth.type"),
        ({"auth.type": "basic", "auth.user": "u"}, "auth.type"),
        ({"headers": "no colon"}, "headers"),
        ({"format": "text", "key.pointer": "/a"}, "key.pointer"),
        ({"incremental.parameter": "since"}, "incremental.pointer"),
    ],
)
def test_wrong_settings_are_refused_by_name(wrong, name):
    with pytest.raises(InvalidSettings) as refused:
        HttpSource.settings_class.read({"url": "http://x/", "topic": "t", **wrong})
    assert name in refused.value.problems
    assert "secret" not in str(refused.value)
