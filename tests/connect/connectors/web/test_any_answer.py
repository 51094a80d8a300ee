"""Whatever a server answers: it is read, or told in plain words."""

import contextlib
import threading

from httpx2 import Headers
from hypothesis import given, settings
from hypothesis import strategies as st

from strom.connect.api import ConnectError
from strom.connect.connectors.web import http_source, page_source
from strom.connect.connectors.web.http_client import HttpResponse, retry_after_seconds
from strom.connect.connectors.web.page_reading import WebPage, parse_fields
from strom.connect.connectors.web.paging import LinkedPages
from strom.connect.connectors.web.robots import Robots
from strom.testing.connectors import StoredOffsets

html = st.text("<>/=\"' abdhilnpr#:&;!-[]", max_size=60)
bodies = st.binary(max_size=80) | st.text('[]{}":,0123456789.eE-truefalsn\\ud', max_size=40).map(
    str.encode
)


class Context:
    def __init__(self):
        self.stopping = threading.Event()
        self.offset = StoredOffsets().get


class OneAnswer:
    """Stands where the client is, and gives one answer to everything."""

    ready_in = 0.0

    def __init__(self, body, status=200):
        self._answer = HttpResponse("http://x/", status, Headers(), body)

    def request(self, *_, **__):
        return self._answer


@given(bodies, st.sampled_from(["json", "lines", "text"]))
@settings(max_examples=300, deadline=None)
def test_of_an_interface(body, form):
    texts = {"url": "http://x/", "topic": "t", "format": form, "poll.interval.ms": "0"}
    if form == "json":
        texts |= {"key.pointer": "/a/0", "incremental.pointer": "/b"}
    task = http_source.HttpSourceTask(http_source.HttpSourceSettings.read(texts), Context())
    setattr(task, "_client", OneAnswer(body))  # noqa: B010 - it need not be a whole one
    for _ in range(2):
        with contextlib.suppress(ConnectError):
            assert isinstance(task.poll(), list)


@given(html)
@settings(max_examples=300, deadline=None)
def test_of_a_page(text):
    page = WebPage("http://x/a/", text.encode())
    assert all(link.startswith(("http://", "https://")) for link in page.links())
    fields = parse_fields("a: b | links[]: a@href")
    for row in page.read("p", fields) + page.read(None, fields):
        assert row["a"] is None or isinstance(row["a"], str)
        assert isinstance(row["links"], list)


@given(
    st.text("*$/ab:#\n UserAgentDisallow-Crawldey0.", max_size=120), st.text("/ab*$", max_size=20)
)
@settings(deadline=None)
def test_of_robots_txt(text, path):
    robots = Robots(f"User-agent: *\nDisallow: /a*b\n{text}", "strom")
    assert robots.allows(path) in {True, False}
    assert robots.delay is None or robots.delay >= 0


@given(st.text('<>;,=" relnxtp:/ab[]', max_size=60))
@settings(deadline=None)
def test_of_a_link_header(text):
    answer = HttpResponse("http://x/a", 200, Headers({"link": text}), b"")
    page = LinkedPages(None).after(None, answer, None, 1)
    assert page is None or str(page).startswith("http://x")


@given(st.text(max_size=30) | st.none())
@settings(deadline=None)
def test_of_retry_after(text):
    seconds = retry_after_seconds(text, 1_700_000_000)
    assert seconds is None or seconds >= 0


def test_what_is_no_address_is_no_page():
    page = WebPage("http://x/", b'<base href="http://["><a href="http://[">a</a><a href=b>b</a>')
    assert list(page.links()) == ["http://x/b"]
    answer = HttpResponse("http://x/a", 200, Headers({"link": "<http://[>; rel=next"}), b"")
    assert LinkedPages(None).after(None, answer, None, 1) is None
    assert retry_after_seconds("²", 0) is None


def test_dates_of_retry_after_are_understood():
    assert retry_after_seconds("Tue, 14 Nov 2023 22:13:30 GMT", 1_700_000_000) == 10


@given(st.binary(max_size=60))
@settings(deadline=None)
def test_of_a_sitemap(body):
    with contextlib.suppress(ConnectError):
        assert isinstance(page_source._sitemap_text(b"\x1f\x8b" + body, 1000), str)
