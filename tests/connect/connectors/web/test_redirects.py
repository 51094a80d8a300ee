"""Redirects: followed without credentials to other servers, never from https to http, not for ever."""

import contextlib
import json
import threading

import pytest
from httpx2 import Headers

from strom.connect.api import ConnectError, RetriableError
from strom.connect.connectors.web import http_client
from strom.connect.connectors.web.http_client import (
    HttpClient,
    HttpClientSettings,
    HttpResponse,
    redirect_target,
)
from strom.connect.connectors.web.http_source import HttpSource
from strom.connect.connectors.web.page_source import WebPageSource
from strom.connect.connectors.web.paging import LinkedPages
from strom.testing.connectors import SourceDriver
from tests.connect.connectors.web.web_server import Reply, web_server

SECRETS = {
    "headers": "X-Api-Key: s3cr3t | Cookie: session=s3cr3t | Proxy-Authorization: s3cr3t",
    "auth.type": "basic",
    "auth.user": "u",
    "auth.password": "s3cr3t",
}
SECRET_NAMES = ("x-api-key", "cookie", "proxy-authorization", "authorization")


@pytest.fixture
def web():
    with web_server() as server:
        yield server


@pytest.fixture
def other():
    with web_server() as server:
        yield server


def moved(to, status=302, **headers):
    return Reply(status=status, headers={"Location": to, **headers})


def polled(connector, **settings):
    """What a new task reads, until it fails or has asked for everything."""
    texts = {name.replace("_", "."): str(value) for name, value in settings.items()}
    driver = SourceDriver(connector, {"topic": "t", **texts})
    driver.start()
    try:
        return [record.value for _ in range(2) for record in driver.tasks[0].poll()]
    finally:
        driver.stop()


def secrets_in(asked):
    return [name for name in SECRET_NAMES if asked.headers.get(name)]


@pytest.mark.parametrize("auth", [SECRETS, {"auth.type": "bearer", "auth.token": "s3cr3t"}])
def test_credentials_and_configured_headers_are_not_sent_to_another_origin(web, other, auth):
    web.reply = lambda asked: moved(f"{other.url}/elsewhere", **{"Set-Cookie": "session=s3cr3t"})
    other.reply = lambda asked: Reply('[{"id": 1}]')
    assert polled(HttpSource, url=f"{web.url}/items", **auth) == [{"id": 1}]
    assert secrets_in(web.asked[0])
    assert [asked.path for asked in other.asked] == ["/elsewhere"]
    assert "s3cr3t" not in str(other.asked[0].headers)
    assert secrets_in(other.asked[0]) == []


def test_they_are_not_sent_again_after_a_detour_by_another_origin(web, other):
    web.reply = lambda asked: (
        Reply("[]") if asked.path == "/chosen" else moved(f"{other.url}/detour")
    )
    other.reply = lambda asked: moved(f"{web.url}/chosen")
    assert polled(HttpSource, url=f"{web.url}/items", **SECRETS) == []
    assert [(asked.path, bool(secrets_in(asked))) for asked in web.asked[:2]] == [
        ("/items", True),
        ("/chosen", False),
    ]


def test_they_are_sent_on_within_an_origin(web):
    web.reply = lambda asked: (
        Reply('[{"id": 1}]') if asked.path == "/b" else moved("/b?x=1", status=308)
    )
    assert polled(HttpSource, url=f"{web.url}/a", **SECRETS) == [{"id": 1}]
    assert [asked.path for asked in web.asked[:2]] == ["/a", "/b"]
    assert web.asked[1].query == {"x": "1"}
    assert secrets_in(web.asked[1]) == list(SECRET_NAMES)


@pytest.mark.parametrize(
    ("url", "location", "is_trusted"),
    [
        ("http://api.example/a", "https://api.example/a", True),
        ("http://api.example:80/a", "https://api.example:443/a", True),
        ("http://api.example/a", "https://api.example:8443/a", False),
        ("http://api.example:8080/a", "https://api.example/a", False),
        ("http://api.example/a", "https://www.api.example/a", False),
    ],
)
def test_they_are_sent_on_from_http_to_https_of_the_same_host(
    monkeypatch, url, location, is_trusted
):
    """And to its further pages, which are called by addresses of https from the beginning."""

    def once(self, trusted, method, address, *more):
        headers = Headers({"Location": location} if address == url else {})
        return HttpResponse(address, 301 if address == url else 200, headers, b"", trusted)

    monkeypatch.setattr(HttpClient, "_once", once)
    client = HttpClient(HttpClientSettings(), threading.Event(), named=[url])
    with contextlib.closing(client):
        assert client.request("GET", url).trusted is is_trusted
        assert client.request("GET", f"{location}?page=2").trusted is is_trusted


def test_links_on_another_origin_after_a_redirect_are_followed_without_credentials(web, other):
    web.reply = lambda asked: moved(f"{other.url}/items")
    other.reply = lambda asked: Reply(
        json.dumps({"rows": [asked.path], "next": "/2" if asked.path == "/items" else None})
    )
    paging = {"paging": "link", "paging.pointer": "/next", "records.pointer": "/rows"}
    assert polled(HttpSource, url=f"{web.url}/items", **paging, **SECRETS) == ["/items", "/2"]
    assert [secrets_in(asked) for asked in other.asked] == [[], []]


def test_a_refusal_at_another_origin_says_that_credentials_were_not_sent(web, other):
    web.reply = lambda asked: moved(f"{other.url}/?token=s3cr3t")
    other.reply = lambda asked: Reply(status=401)
    with pytest.raises(ConnectError, match=r"401.*redirected.*not sent.*set url") as caught:
        polled(HttpSource, url=f"{web.url}/items", **SECRETS)
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    "reply", [Reply(status=401), Reply("no JSON"), Reply('{"a": 1}'), Reply(f"[{'1,' * 5000}1]")]
)
def test_secrets_of_a_redirect_are_in_no_message(web, other, reply):
    host = other.url.removeprefix("http://")
    web.reply = lambda asked: moved(f"http://user:s3cr3t@{host}/a?token=s3cr3t")
    other.reply = lambda asked: reply
    more = {"records.pointer": "/rows", "max.response.bytes": "9000"}
    with pytest.raises(ConnectError) as caught:
        polled(HttpSource, url=f"{web.url}/items", **more)
    assert f"http://{host}/a " in f"{caught.value} "
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    "location", ["http://user:s3cr3t@127.0.0.1:9/?t=s3cr3t", "ftp://user:s3cr3t@127.0.0.1/x"]
)
def test_secrets_of_a_redirect_that_fails_are_in_no_message(web, location):
    web.reply = lambda asked: moved(location)
    with pytest.raises(ConnectError, match=r"127\.0\.0\.1") as caught:
        polled(HttpSource, url=f"{web.url}/items")
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("status", [300, 303, 307])
def test_a_redirect_without_an_address_is_no_empty_page(web, status):
    web.reply = lambda asked: Reply(status=status)
    with pytest.raises(ConnectError, match=f"responded with {status}"):
        polled(HttpSource, url=f"{web.url}/items")


def test_redirects_without_end_fail_after_a_bounded_number(web):
    web.reply = lambda asked: moved(f"/{len(web.asked)}")
    with pytest.raises(
        ConnectError, match=f"more than {http_client.MAX_REDIRECTS} times"
    ) as caught:
        polled(HttpSource, url=f"{web.url}/items")
    assert not isinstance(caught.value, RetriableError)
    assert len(web.asked) == http_client.MAX_REDIRECTS + 1


@pytest.mark.parametrize("location", ["ftp://x/", "http://[", "http://x:99999999/", "mailto:a@b"])
def test_a_redirect_to_what_is_no_address_is_refused(web, location):
    web.reply = lambda asked: moved(location)
    with pytest.raises(ConnectError):
        polled(HttpSource, url=f"{web.url}/items")
    assert {asked.path for asked in web.asked} == {"/items"}


def test_https_is_not_left_by_a_redirect():
    with pytest.raises(ConnectError, match=r"from https to http.*http://api\.example/b") as caught:
        redirect_target("https://api.example/a?key=s3cr3t", "http://api.example/b?key=s3cr3t")
    assert "s3cr3t" not in str(caught.value)
    assert redirect_target("http://api.example/a", "https://api.example/b") == (
        "https://api.example/b"
    )
    assert redirect_target("https://api.example/a/b", "../c") == "https://api.example/c"
    assert redirect_target("https://api.example/a", "//other.example/c") == (
        "https://other.example/c"
    )


def test_https_is_not_left_by_a_link_to_the_next_page():
    """Servers behind a proxy that ends TLS often write http into their links."""
    answer = HttpResponse("https://api.example/a", 200, Headers(), b"")
    following = LinkedPages("/next").after(None, answer, {"next": "http://api.example/b"}, 1)
    assert following == "https://api.example/b"


@pytest.mark.parametrize("status", [307, 308])
def test_a_request_with_a_body_is_not_redirected(web, status):
    """Sinks do not follow redirects: a client that does may drop the body."""
    web.reply = lambda asked: moved("/b", status=status)
    client = HttpClient(HttpClientSettings.read({}), threading.Event(), redirects=False)
    assert client.request("POST", f"{web.url}/a", content=b"x").status == status
    client.close()
    assert [(asked.method, asked.path) for asked in web.asked] == [("POST", "/a")]


def test_pages_on_other_origins_get_no_credentials(web, other):
    web.reply = lambda asked: {
        "/robots.txt": Reply(status=404),
        "/page": moved(f"{other.url}/moved"),
        "/sitemap.xml": Reply(f"<urlset><url><loc>{other.url}/listed</loc></url></urlset>"),
    }[asked.path]
    other.reply = lambda asked: Reply("<body>text</body>")
    for settings in ({"urls": f"{web.url}/page"}, {"sitemap": f"{web.url}/sitemap.xml"}):
        with contextlib.suppress(RetriableError):
            polled(WebPageSource, delay_ms=0, user_agent="reader", **settings, **SECRETS)
    assert {asked.path for asked in other.asked} >= {"/moved", "/listed", "/robots.txt"}
    assert [secrets_in(asked) for asked in other.asked] == [[]] * len(other.asked)
    assert {asked.headers["user-agent"] for asked in other.asked} == {"reader"}
    assert all(secrets_in(asked) for asked in web.asked)


def test_a_page_that_redirects_without_end_is_left_out_and_the_others_are_read(web):
    web.reply = lambda asked: {
        "/robots.txt": Reply(status=404),
        "/good": Reply("<title>good</title><body></body>"),
        "/loop": moved("/loop"),
    }[asked.path]
    values = polled(WebPageSource, urls=f"{web.url}/loop,{web.url}/good", delay_ms=0)
    assert [value["title"] for value in values] == ["good"]
