"""WebPageSource: what is on web pages becomes records."""

import gzip
import time

import pytest

from strom.connect.api import InvalidSettings
from strom.connect.api.schema import OPTIONAL_STRING, STRING
from strom.connect.connectors.web.page_source import WebPageSource
from strom.testing.connectors import SourceDriver, SourceLaws, StoredOffsets
from tests.connect.connectors.web.web_server import Reply, web_server


@pytest.fixture
def web():
    with web_server() as server:
        yield Site(server)


class Site:
    """Pages by their path, on a real server."""

    def __init__(self, server):
        self.server = server
        self.pages: dict[str, str | Reply] = {}
        server.reply = self.answer

    def answer(self, asked):
        path = asked.path + ("?" + "&".join(asked.query) if asked.query else "")
        page = self.pages.get(path, Reply(status=404))
        return page if isinstance(page, Reply) else Reply(page)

    @property
    def url(self):
        return self.server.url

    @property
    def visited(self):
        return [asked.path for asked in self.server.asked]


class TestWebPageSource(SourceLaws):
    """Every item is a page of its own, and the front page links to all of them."""

    connector = WebPageSource
    ordered = False

    @pytest.fixture(autouse=True)
    def _server(self):
        with web_server() as server:
            self.site = Site(server)
            self.count = 0
            yield

    def settings(self, folder):
        return {
            "urls": f"{self.site.url}/",
            "topic": "pages",
            "fields": "number: .number",
            "item.selector": "article",
            "follow.depth": "1",
            "delay.ms": "0",
            "poll.interval.ms": "10",
        }

    def seed(self, folder, items):
        self.count += len(items)
        for item in items:
            text = f"<article><b class=number>{item}</b></article>"
            self.site.pages[f"/{item}"] = text
        links = "".join(f"<a href=/{n}>{n}</a>" for n in range(self.count))
        self.site.pages["/"] = f"<body>{links}</body>"

    def item(self, record):
        return int(record.value["number"])

    def take_away(self, folder):
        self.site.server.stop()
        return True

    def bring_back(self, folder):
        self.site.server.start()

    def test_what_is_there_comes_out_once_and_in_order(self, tmp_path):
        self.seed(tmp_path, range(25))
        with self._running(tmp_path) as driver:
            self._same(driver.read(25), range(25))
            assert [record for _ in range(60) for record in driver.poll()] == []


def started(web, offsets=None, **settings):
    texts = {name.replace("_", "."): str(value) for name, value in settings.items()}
    defaults = {"topic": "t", "poll.interval.ms": "10", "delay.ms": "0"}
    if "sitemap" not in texts:
        defaults["urls"] = f"{web.url}/"
    driver = SourceDriver(WebPageSource, {**defaults, **texts}, offsets)
    driver.start()
    return driver


SHOP = """
<html><head><title>Shop</title><style>p {}</style></head><body>
<div class=item><h2>Tea &amp;  <i>more</i></h2><img src=tea.png><u>green</u><u>hot</u></div>
<div class=item><h2>Cup</h2></div><script>never()</script></body></html>
"""


def test_fields_are_read_by_selectors(web):
    web.pages["/"] = SHOP
    fields = "name: h2 | image: img@src | tags[]: u"
    driver = started(web, fields=fields, item_selector="div.item", key_field="name")
    records = driver.read(2)
    driver.stop()
    assert [record.value for record in records] == [
        {"url": f"{web.url}/", "name": "Tea & more", "image": "tea.png", "tags": ["green", "hot"]},
        {"url": f"{web.url}/", "name": "Cup", "image": None, "tags": []},
    ]
    assert [record.key for record in records] == ["Tea & more", "Cup"]
    assert records[0].value_schema.field("url").schema == STRING
    assert records[0].value_schema.field("name").schema == OPTIONAL_STRING


def test_without_fields_title_and_text_are_read(web):
    web.pages["/"] = SHOP
    driver = started(web)
    (record,) = driver.read(1)
    driver.stop()
    assert record.key == f"{web.url}/"
    assert record.value["title"] == "Shop"
    assert record.value["text"] == "Tea & more green hot Cup"


def test_characters_are_read_as_the_server_says(web):
    page = "<title>Übergrößen</title>".encode("latin-1")
    web.pages["/"] = Reply(page, headers={"content-type": "text/html; charset=iso-8859-1"})
    driver = started(web, fields="title: title")
    assert driver.read(1)[0].value["title"] == "Übergrößen"
    driver.stop()


def test_only_what_has_changed_on_a_page_gives_records(web):
    web.pages["/"] = Reply("<h1>one</h1><i>12:00</i>", headers={"ETag": '"a"'})
    driver = started(web, fields="title: h1")
    assert [record.value["title"] for record in driver.read(1)] == ["one"]
    web.pages["/"] = Reply("<h1>one</h1><i>12:01</i>", headers={"ETag": '"b"'})
    assert [driver.poll() for _ in range(3)] == [[], [], []]
    driver.stop()
    again = started(web, driver.offsets, fields="title: h1")
    assert again.poll() == []
    assert web.server.asked[-1].headers["if-none-match"] == '"a"'
    web.pages["/"] = "<h1>two</h1>"
    assert [record.value["title"] for record in again.read(1)] == ["two"]
    again.stop()


def test_a_page_of_many_items_is_gone_on_with_after_a_restart(web):
    web.pages["/"] = "".join(f"<li>{number}</li>" for number in range(5))
    driver = started(web, fields="n: li", item_selector="li")
    records = driver.read(5)
    driver.stop()
    offsets = StoredOffsets()
    offsets.keep(records[:2])
    again = started(web, offsets, fields="n: li", item_selector="li")
    assert again.read(3) == records[2:]
    again.stop()


def test_links_are_followed_within_the_site_and_depth(web):
    web.pages["/"] = (
        '<a href="/one#top">1</a><a href="/one">1</a><a href="http://127.0.0.2:9/x">away</a>'
        '<a rel=nofollow href="/ads">ads</a><a href="mailto:a@b">mail</a><a href="http://[">?</a>'
    )
    web.pages["/one"] = '<a href="two">2</a><a href="/">back</a>'
    web.pages["/two"] = '<a href="/three">3</a>'
    web.pages["/three"] = "too far"
    driver = started(web, follow_depth=2, poll_interval_ms=60000)
    assert len(driver.read(3)) == 3
    assert driver.poll() == []
    driver.stop()
    assert web.visited == ["/robots.txt", "/", "/one", "/two"]


def test_a_round_visits_no_more_pages_than_allowed(web):
    web.pages["/"] = "".join(f'<a href="/{number}">x</a>' for number in range(50))
    web.pages |= {f"/{number}": "page" for number in range(50)}
    driver = started(web, follow_depth=1, max_pages=5, poll_interval_ms=60000)
    driver.read(5)
    driver.poll()
    driver.stop()
    assert len(web.visited) == 6


def test_robots_txt_is_kept_to(web):
    web.pages["/robots.txt"] = "User-agent: *\nDisallow: /no\nCrawl-delay: 0.3"
    web.pages |= {"/": '<a href="/no">no</a><a href="/yes">yes</a>', "/yes": "y", "/no": "n"}
    driver = started(web, follow_depth=1, poll_interval_ms=60000, user_agent="someone")
    began = time.monotonic()
    assert len(driver.read(2)) == 2
    assert time.monotonic() - began >= 0.3
    driver.stop()
    assert web.visited == ["/robots.txt", "/", "/yes"]
    assert web.server.asked[0].headers["user-agent"] == "someone"


def test_pages_come_from_sitemaps(web):
    index = "<sitemapindex><sitemap><loc>{0}/a.xml</loc></sitemap><loc>{0}/b.xml.gz</loc></sitemapindex>"
    web.pages |= {
        "/map.xml": index.format(web.url),
        "/a.xml": f"<urlset><url><loc> {web.url}/1?x&amp;y </loc></url></urlset>",
        "/b.xml.gz": Reply(
            gzip.compress(f"<urlset><url><loc>{web.url}/2</loc></url></urlset>".encode())
        ),
        "/1?x&y": "<title>1</title>",
        "/2": "<title>2</title>",
    }
    driver = started(web, sitemap=f"{web.url}/map.xml", fields="title: title")
    assert [record.value["title"] for record in driver.read(2)] == ["1", "2"]
    driver.stop()


def test_a_page_that_fails_does_not_keep_the_others_back(web):
    web.pages |= {
        "/": '<a href="/gone">g</a><a href="/broken">b</a><a href="/long">l</a><a href="/good">x</a>',
        "/broken": Reply(status=500),
        "/long": "x" * 5000,
        "/good": "good",
    }
    driver = started(web, follow_depth=1, poll_interval_ms=60000, max_response_bytes=4000)
    assert [record.value["text"] for record in driver.read(2)][1:] == ["good"]
    for _ in range(3):
        driver.poll()
    driver.stop()
    assert web.visited.count("/broken") == 3
    assert web.visited.count("/gone") == 1


def test_sites_are_shared_among_tasks():
    urls = "http://a/1,http://a/2,http://b/1,http://c/1"
    connector = WebPageSource(WebPageSource.settings_class.read({"urls": urls, "topic": "t"}))
    assert connector.task_settings(2) == [
        {"urls": "http://a/1,http://a/2,http://c/1"},
        {"urls": "http://b/1"},
    ]


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"urls": ""}, "urls"),
        ({"urls": "example.org"}, "urls"),
        ({"sitemap": "x"}, "sitemap"),
        ({"fields": "title"}, "fields"),
        ({"fields": "title: h1["}, "fields"),
        ({"fields": "a: h1 | a: h2"}, "fields"),
        ({"fields": "url: h1"}, "fields"),
        ({"item.selector": "li["}, "item.selector"),
        ({"key.field": "id"}, "key.field"),
    ],
)
def test_wrong_settings_are_refused_by_name(wrong, name):
    with pytest.raises(InvalidSettings) as refused:
        WebPageSource.settings_class.read({"urls": "http://x/", "topic": "t", **wrong})
    assert name in refused.value.problems
