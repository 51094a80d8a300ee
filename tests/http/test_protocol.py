"""Where requests end: what a proxy in front might read differently is refused, by every interface."""

import json

import h11
import pytest

from strom.connect.runtime.rest.responses import make_error_format
from strom.http.protocol import StrictConnection
from strom.model.http_settings import HttpLimits
from strom.pipelines.serving.http import ERRORS as SERVING
from strom.registry.rest.exchange import ERRORS as REGISTRY
from strom.server.management.app import ERRORS as MANAGEMENT
from tests.http.small_server import HOST, JSON, read_one, responses, running

CODED = {"error_code", "message"}
INTERFACES = {
    "registry": (REGISTRY, CODED),
    "connect": (make_error_format(lambda text: text), CODED),
    "management": (MANAGEMENT, {"error", "reason"}),
    "serving": (SERVING, {"error"}),
}
LIMITS = HttpLimits(head_bytes=4096, body_bytes=50_000)
POST = b"POST /object HTTP/1.1\r\n" + JSON
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"

REFUSED = {
    "Content-Length with Transfer-Encoding": (
        POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        400,
    ),
    "two equal Content-Length": (POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400),
    "two Content-Length": (POST + b"Content-Length: 2\r\nContent-Length: 7\r\n\r\n{}", 400),
    "a list of Content-Length": (POST + b"Content-Length: 2, 2\r\n\r\n{}", 400),
    "a negative Content-Length": (POST + b"Content-Length: -5\r\n\r\n", 400),
    "a Content-Length of 3,000 digits": (
        POST + b"Content-Length: " + b"9" * 3000 + b"\r\n\r\n",
        400,
    ),
    "a Content-Length above the limit": (POST + b"Content-Length: 50001\r\n\r\n", 413),
    "chunks above the limit": (CHUNKED + b"ea60\r\n" + b"x" * 60_000 + b"\r\n0\r\n\r\n", 413),
    "chunks of one byte": (CHUNKED + b"1\r\nx\r\n" * 1100 + b"0\r\n\r\n", 400),
    "a malformed chunk": (CHUNKED + b"xx\r\n{}\r\n0\r\n\r\n", 400),
    "two transfer codings": (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    "Transfer-Encoding of HTTP/1.0": (
        b"POST /object HTTP/1.0\r\n" + JSON + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "a folded header": (b"GET / HTTP/1.1\r\n" + HOST + b"X: a\r\n b\r\n\r\n", 400),
    "a space before a colon": (b"GET / HTTP/1.1\r\n" + HOST + b"X : a\r\n\r\n", 400),
    "a bare LF": (b"GET / HTTP/1.1\r\n" + HOST + b"X: a\nY: b\r\n\r\n", 400),
    "only bare LF": (b"GET / HTTP/1.1\nHost: localhost\n\n", 400),
    "a bare CR": (b"GET / HTTP/1.1\r\n" + HOST + b"X: a\rY: b\r\n\r\n", 400),
    "no Host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two Host": (b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400),
    "a head above the limit": (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"x" * 5000, 431),
    "a complete head above the limit": (
        b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"x" * 5000 + b"\r\n\r\n",
        431,
    ),
    "too many headers": (b"GET / HTTP/1.1\r\n" + HOST + b"X: \r\n" * 200 + b"\r\n", 431),
    "too many headers of a partial head": (b"GET / HTTP/1.1\r\n" + HOST + b"X: \r\n" * 200, 431),
    "a path that is not ASCII": (b"GET /\xc3\xa9 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01", 400),
    "nonsense": (b"nonsense\r\n\r\n", 400),
}

CLOSE = b"Connection: close\r\n\r\n"
ANSWERED = {
    "an absolute target": (b"GET http://localhost/a HTTP/1.1\r\n" + HOST + CLOSE, 200),
    "an absolute target of another host": (b"GET http://evil/a HTTP/1.1\r\n" + HOST + CLOSE, 400),
    "a foreign absolute target and Host": (
        b"GET http://evil/a HTTP/1.1\r\nHost: evil\r\n" + CLOSE,
        403,
    ),
    "an asterisk": (b"OPTIONS * HTTP/1.1\r\n" + HOST + CLOSE, 400),
    "CONNECT": (b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + CLOSE, 400),
    "malformed percent-encoding": (b"GET /%zz HTTP/1.1\r\n" + HOST + CLOSE, 400),
    "percent-encoding that ends early": (b"GET /%2 HTTP/1.1\r\n" + HOST + CLOSE, 400),
    "percent-encoding that is not UTF-8": (b"GET /%ff HTTP/1.1\r\n" + HOST + CLOSE, 400),
    "a header that is not ASCII": (b"GET / HTTP/1.1\r\n" + HOST + b"X: \xc3\xa9\r\n" + CLOSE, 200),
    "HTTP/1.0": (b"GET / HTTP/1.0\r\n" + HOST + b"\r\n", 200),
    "HTTP/1.0 without Host": (b"GET / HTTP/1.0\r\n\r\n", 400),
    "an upgrade": (
        b"GET / HTTP/1.1\r\n" + HOST + b"Upgrade: websocket\r\nConnection: upgrade, close\r\n\r\n",
        200,
    ),
}


def posted(body):
    return POST + b"Content-Length: " + str(len(body)).encode() + b"\r\n" + CLOSE + body


BODIES = {
    "no JSON": b"{",
    "nothing": b"",
    "no object": b"[]",
    "nested 10,000 deep": b'{"a":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "NaN": b'{"a": NaN}',
    "-Infinity": b'{"a": -Infinity}',
    "a lone surrogate": b'{"a": "\\ud800"}',
    "bytes that are not UTF-8": b'{"a": "\xff"}',
    "a number of 5,000 digits": b'{"a": ' + b"9" * 5000 + b"}",
}


@pytest.fixture(scope="module", params=INTERFACES)
def interface(request):
    errors, keys = INTERFACES[request.param]
    with running(errors, LIMITS) as server:
        server.keys = keys
        yield server
        assert server.get(b"/a")[0] == 200


def check_error(interface, raw, status):
    [(found, body)] = responses(raw)
    assert found == status
    assert json.loads(body).keys() == interface.keys
    assert json.loads(body).get("error_code", status) == status


@pytest.mark.parametrize("case", REFUSED)
def test_ambiguous_requests_are_refused_and_end_the_connection(interface, case, caplog):
    sent, status = REFUSED[case]
    before = len(interface.app.requests)
    smuggled = b"GET /smuggled HTTP/1.1\r\n" + HOST + b"\r\n"
    check_error(interface, interface.exchange(sent + smuggled), status)
    assert "/smuggled" not in interface.app.requests[before:]
    assert caplog.records == []


@pytest.mark.parametrize("case", ANSWERED)
def test_unusual_requests_have_one_meaning(interface, case, caplog):
    sent, status = ANSWERED[case]
    raw = interface.exchange(sent)
    if status != 200:
        check_error(interface, raw, status)
    else:
        assert [found for found, _ in responses(raw)] == [200]
    assert caplog.records == []


@pytest.mark.parametrize("case", BODIES)
def test_bodies_that_are_no_json_objects_are_refused(interface, case, caplog):
    check_error(interface, interface.exchange(posted(BODIES[case])), 400)
    assert caplog.records == []


def test_pipelined_requests_are_answered_in_order(interface):
    paths = [f"/{number}" for number in range(50)]
    sent = b"".join(b"GET " + path.encode() + b" HTTP/1.1\r\n" + HOST + b"\r\n" for path in paths)
    last = b"GET /last HTTP/1.1\r\n" + HOST + CLOSE
    raw = interface.exchange(sent + last)
    assert [json.loads(body)["path"] for _, body in responses(raw)] == [*paths, "/last"]


def test_an_unread_body_is_not_the_next_request(interface):
    refused = b"POST /a HTTP/1.1\r\nHost: evil\r\nContent-Length: 40000\r\n\r\n" + b"x" * 40_000
    raw = interface.exchange(refused + b"GET /b HTTP/1.1\r\n" + HOST + CLOSE)
    assert [status for status, _ in responses(raw)] == [403, 200]


def test_a_refused_request_with_expect_ends_the_connection(interface):
    head = b"POST /a HTTP/1.1\r\nHost: evil\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n"
    [(status, _)] = responses(interface.exchange(head))
    assert status == 403


def test_an_accepted_request_with_expect_is_asked_for_its_body(interface):
    head = POST + b"Expect: 100-continue\r\nContent-Length: 2\r\n" + CLOSE
    with interface.connect() as client:
        client.sendall(head)
        assert client.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"[:25]
        client.sendall(b"{}")
        assert read_one(client)[0] == 200


def test_a_client_that_sends_too_much_still_gets_the_reason(interface):
    body = b"x" * 2_000_000
    sent = POST + b"Content-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body
    check_error(interface, interface.exchange(sent), 413)


@pytest.mark.parametrize("path", ["/a", "/a/", "/a//"])
def test_a_slash_at_the_end_does_not_matter(interface, path):
    assert interface.get(path.encode())[1]["path"] == "/a"


def test_an_encoded_slash_stays_encoded_for_routing(interface):
    assert interface.get(b"/a%2Fb/c")[1]["path"] == "/a%2Fb/c"


def test_an_internal_error_is_logged_and_not_shown(interface, caplog):
    status, body = interface.get(b"/fail")
    assert (status, body.keys()) == (500, interface.keys)
    assert "hunter2" not in json.dumps(body)
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_a_body_with_a_length_may_come_in_any_number_of_segments():
    connection = StrictConnection(HttpLimits())
    connection.receive_data(POST + b"Content-Length: 2000\r\n\r\n")
    assert isinstance(connection.next_event(), h11.Request)
    for _ in range(2000):
        connection.receive_data(b"x")
        assert connection.next_event().data == b"x"
    assert isinstance(connection.next_event(), h11.EndOfMessage)
