"""What every interface has: health, metrics, the guard and authentication in front."""

import asyncio
import base64

import pytest
from starlette.responses import PlainTextResponse

from strom.http.application import HttpApplication
from strom.http.authentication import BasicLogin
from strom.http.errors import ErrorFormat
from strom.http.guard import Guard
from strom.http.routing import EncodedRoute, make_router
from tests.http.small_server import HOST, PLAIN, running

FOREIGN = b"Host: evil.example"
LOGIN = BasicLogin("guest", "s3cret", "test", lambda user, address: address == "127.0.0.1")


def authorization(login):
    return b"Authorization: Basic " + base64.b64encode(login)


def test_health_is_open_to_any_host():
    with running() as server:
        assert server.get(b"/health/live", FOREIGN) == (200, {"status": "ok"})
        assert server.get(b"/health/ready", FOREIGN) == (200, {"status": "ok"})
        assert server.get(b"/health/other", FOREIGN)[0] == 403
        assert server.get(b"/health/other", HOST.strip())[0] == 200  # the application's own
        assert server.app.requests == ["/health/other"]


def test_an_interface_that_cannot_serve_is_live_but_not_ready():
    with running(not_ready=lambda: "The topic cannot be read.") as server:
        assert server.get(b"/health/live")[0] == 200
        status, body = server.get(b"/health/ready")
        assert (status, body["reason"]) == (503, "The topic cannot be read.")


def test_health_is_only_read():
    with running() as server:
        raw = server.exchange(
            b"DELETE /health/live HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
        )
        assert raw.startswith(b"HTTP/1.1 405")
        assert b"allow: GET, HEAD" in raw


async def scrape(accept):
    return b'{"accepted": "%s"}' % accept.encode(), "text/plain; version=0.0.4; charset=utf-8"


def test_metrics_are_guarded_and_only_read():
    with running(metrics=scrape) as server:
        accept = b"Accept: application/openmetrics-text"
        assert server.get(b"/metrics", HOST.strip(), accept) == (
            200,
            {"accepted": "application/openmetrics-text"},
        )
        assert server.get(b"/metrics", FOREIGN)[0] == 403
        end = b" /metrics HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
        raw = server.exchange(b"GET" + end)
        assert b"content-type: text/plain; version=0.0.4; charset=utf-8" in raw
        assert server.exchange(b"DELETE" + end).startswith(b"HTTP/1.1 405")


def test_without_metrics_the_path_is_the_applications():
    with running() as server:
        assert server.get(b"/metrics")[1]["path"] == "/metrics"


def test_metrics_that_fail_are_an_internal_error(caplog):
    async def fail(accept):
        raise RuntimeError("hunter2")

    with running(metrics=fail) as server:
        status, body = server.get(b"/metrics")
        assert (status, "hunter2" in str(body)) == (500, False)
    assert len(caplog.records) == 1


def test_requests_are_authenticated_behind_the_guard():
    with running(authenticate=LOGIN, metrics=scrape) as server:
        local = HOST.strip()
        assert server.get(b"/a", local, authorization(b"guest:s3cret"))[1]["user"] == "guest"
        assert server.get(b"/a")[0] == 401
        assert server.get(b"/metrics")[0] == 401
        assert server.get(b"/metrics", local, authorization(b"guest:s3cret"))[0] == 200
        assert server.get(b"/a", FOREIGN, authorization(b"guest:s3cret"))[0] == 403
        assert server.get(b"/health/live")[0] == 200
        assert server.app.requests == ["/a"]


@pytest.mark.parametrize(
    "headers",
    [
        [authorization(b"guest:wrong")],
        [authorization(b"guest")],
        [b"Authorization: Basic %%%"],
        [b"Authorization: Basic"],
        [b"Authorization: Bearer " + base64.b64encode(b"guest:s3cret")],
        [authorization(b"guest:wrong"), authorization(b"guest:s3cret")],
    ],
)
def test_a_wrong_login_is_challenged(headers):
    with running(authenticate=LOGIN) as server:
        lines = b"".join(one + b"\r\n" for one in headers)
        raw = server.exchange(b"GET / HTTP/1.1\r\n" + HOST + lines + b"Connection: close\r\n\r\n")
        assert raw.startswith(b"HTTP/1.1 401")
        assert b'www-authenticate: Basic realm="test"' in raw


def test_a_forwarded_address_does_not_replace_the_peers():
    """Else a client on another machine could pass for one on this."""
    elsewhere = BasicLogin("guest", "s3cret", "test", lambda user, address: address == "10.9.8.7")
    with running(authenticate=elsewhere) as server:
        headers = (HOST.strip(), authorization(b"guest:s3cret"), b"X-Forwarded-For: 10.9.8.7")
        assert server.get(b"/a", *headers)[0] == 401


def test_credentials_are_in_no_repr():
    assert "s3cret" not in repr(LOGIN)


def test_errors_are_compact_json_with_the_headers_of_their_interface():
    """As Confluent and Kafka write them: scripts search for "error_code":40401."""
    errors = ErrorFormat(
        "The small server",
        lambda error: {"error_code": error.code, "message": error.message},
        headers={"Cache-Control": "no-cache"},
    )
    with running(errors=errors) as server:
        raw = server.exchange(b"GET /fail%zz HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
        assert b'{"error_code":400,"message":"The path' in raw
        assert b"cache-control: no-cache" in raw


async def greet(request):
    return PlainTextResponse("hello")


async def fail(request):
    raise RuntimeError("no")


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/greetings/a%2Fb", ("/greetings/{name}", "GET", 200)),
        ("PUT", "/greetings/a", ("/greetings/{name}", "PUT", 405)),
        ("GET", "/failures/1", ("/failures/{id}", "GET", 500)),
        ("GET", "/a/path/that/a/client/invents", (None, "GET", 404)),
        ("GET", "/health/live", ("/health/live", "GET", 200)),
        ("GET", "/metrics", ("/metrics", "GET", 200)),
    ],
)
def test_requests_are_counted_by_the_template_of_their_route(method, path, expected):
    counted = []
    app = HttpApplication(
        make_router(
            [EncodedRoute("/greetings/{name}", greet), EncodedRoute("/failures/{id}", fail)]
        ),
        guard=Guard.create("127.0.0.1"),
        errors=PLAIN,
        metrics=scrape,
        count=lambda *one: counted.append(one),
    )
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode()}
    scope |= {"headers": [(b"host", b"localhost")], "query_string": b""}

    async def receive():
        return {"type": "http.request", "body": b""}

    async def send(message):
        pass

    asyncio.run(app(scope, receive, send))
    [(*labels, seconds)] = counted
    assert tuple(labels) == expected
    assert seconds >= 0
