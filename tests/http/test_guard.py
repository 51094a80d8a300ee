"""Which requests the guard lets through: those of clients, not those of other sites' pages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.http.guard import Guard, RequestHead
from strom.model.errors import UserError

LOCAL = Guard.create("127.0.0.1")
EVERYWHERE = Guard.create("0.0.0.0", ["connect.example.com", "2001:db8::5"], advertised="node-1")
EVIL = "http://evil.example"


def head(method="GET", host="localhost:8083", body=None, local=None, **headers):
    fields = [("host", host)] if isinstance(host, str) else [("host", one) for one in host]
    fields += [(name.replace("_", "-"), value) for name, value in headers.items()]
    if body is not None:
        fields.append(("content-length", str(len(body))))
    return RequestHead.from_headers(method, fields, local)


def status(guard, **given):
    refusal = guard.check(head(**given))
    return 200 if refusal is None else refusal.status


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8083",
        "LOCALHOST.:8083",
        "127.0.0.1:8083",
        "127.0.0.1.:8083",
        "127.5.6.7",
        "[::1]:8083",
        "[0:0::1]",
        "[::ffff:127.0.0.1]:8083",
    ],
)
def test_loopback_names_are_known_in_every_form(host):
    assert status(LOCAL, host=host) == 200
    assert status(EVERYWHERE, host=host) == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8083",
        "evil.example.",
        "localhost.evil.example",
        "evil.localhost",
        "127.0.0.1.evil.example",
        "127.1",
        "2130706433",
        "0x7f.1",
    ],
)
def test_names_that_dns_may_point_here_are_not(host):
    assert status(LOCAL, host=host) == 403
    assert status(EVERYWHERE, host=host) == 403


@pytest.mark.parametrize(
    "host", ["", "::1", "[::1", "localhost:x", "a b", "localhost/x", "x@localhost"]
)
def test_a_malformed_host_is_a_bad_request(host):
    assert status(LOCAL, host=host) == 400


@pytest.mark.parametrize("hosts", [[], ["localhost", "localhost"], ["localhost", "evil.example"]])
def test_there_is_exactly_one_host(hosts):
    assert status(LOCAL, host=hosts) == 400


def test_an_address_is_known_where_it_is_listened_on():
    bound = Guard.create("10.0.0.5")
    assert status(bound, host="10.0.0.5:8083") == 200
    assert status(bound, host="10.0.0.6:8083") == 403
    assert status(Guard.create("fe80::1%eth0"), host="[fe80::1]:8083") == 200
    assert status(LOCAL, host="0.0.0.0:8083") == 403


@pytest.mark.parametrize("wildcard", ["0.0.0.0", "::", "0::0", ""])
def test_every_address_but_no_name_is_known_to_a_server_that_listens_on_all(wildcard):
    guard = Guard.create(wildcard)
    assert status(guard, host="192.168.1.7:8083") == 200
    assert status(guard, host="[2001:db8::1]:8083") == 200
    assert status(guard, host="evil.example:8083") == 403


def test_a_server_that_listens_on_a_name_is_known_by_it_and_by_its_address():
    guard = Guard.create("broker-1")
    assert status(guard, host="Broker-1:8083") == 200
    assert status(guard, host="10.0.0.5:8083", local="10.0.0.5") == 200
    assert status(guard, host="[fe80::1]", local="fe80::1%eth0") == 200
    assert status(guard, host="10.0.0.6:8083", local="10.0.0.5") == 403


@pytest.mark.parametrize("host", ["connect.example.com:443", "CONNECT.example.com.", "node-1:8083"])
def test_allowed_and_advertised_names_are_known(host):
    assert status(EVERYWHERE, host=host) == 200
    assert status(Guard.create("127.0.0.1", ["2001:db8:0::5"]), host="[2001:db8::5]") == 200


@pytest.mark.parametrize("wrong", ["http://a.example", "a.example:80", "*", "*.example", "a b"])
def test_a_malformed_allowed_host_is_reported_by_the_name_of_the_setting(wrong):
    with pytest.raises(UserError, match=r"http\.allowed\.hosts"):
        Guard.create("127.0.0.1", [wrong])


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "origin",
    [
        EVIL,
        "null",
        "",
        "http://localhost",
        "http://localhost:3000",
        "http://127.0.0.1:8083",
        "https://localhost",
        "http://localhost:8083.evil.example",
        "http://localhost:8083@evil.example",
        "http://evil.example/?http://localhost:8083",
        "file://",
        "chrome-extension://abc",
    ],
)
def test_a_foreign_origin_is_refused_on_every_path(method, origin):
    assert status(LOCAL, method=method, origin=origin) == 403


def test_a_page_that_the_server_itself_served_may_ask():
    assert status(LOCAL, method="POST", origin="http://localhost:8083") == 200
    assert status(LOCAL, host="[::1]:8083", origin="http://[::1]:8083") == 200
    assert status(LOCAL, host="localhost", origin="http://localhost") == 200
    assert status(LOCAL, host="localhost", origin="http://localhost:80") == 200
    behind_tls = {"host": "connect.example.com", "origin": "https://connect.example.com"}
    assert status(EVERYWHERE, **behind_tls) == 200


def test_one_foreign_origin_among_several_is_enough():
    fields = [("host", "localhost"), ("origin", "http://localhost"), ("origin", EVIL)]
    assert LOCAL.check(RequestHead.from_headers("GET", fields, None)).status == 403


@pytest.mark.parametrize(
    ("site", "expected"),
    [("none", 200), ("same-origin", 200), ("same-site", 403), ("cross-site", 403), ("new", 403)],
)
def test_images_and_frames_of_other_sites_are_refused_though_they_have_no_origin(site, expected):
    assert status(LOCAL, sec_fetch_site=site) == expected


@pytest.mark.parametrize(
    "kind",
    [
        "application/json",
        "Application/JSON; charset=utf-8",
        "application/vnd.schemaregistry.v1+json",
        "application/vnd.schemaregistry+json",
    ],
)
def test_bodies_are_json(kind):
    assert status(LOCAL, method="POST", body=b"{}", content_type=kind) == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "text/plain; application/json",
        "text/plain;charset=json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=json",
        "text/json",
        "application/jsonp",
        "",
    ],
)
def test_bodies_that_a_page_can_send_unasked_are_refused(method, kind):
    assert status(LOCAL, method=method, body=b"{}", content_type=kind) == 415


def test_a_body_without_a_type_is_refused_and_a_type_without_a_body_is_not():
    assert status(LOCAL, method="POST", body=b"{}") == 415
    assert status(LOCAL, method="POST", transfer_encoding="chunked") == 415
    assert status(LOCAL, method="PUT", body=b"") == 200
    assert status(LOCAL, method="PUT") == 200
    assert status(LOCAL, method="POST", content_type="text/plain") == 200
    assert status(LOCAL, method="GET", body=b"", content_type="text/plain") == 200


def test_other_types_are_allowed_where_the_server_takes_them():
    binary = {"method": "POST", "body": b"{}", "content_type": "application/octet-stream"}
    assert status(LOCAL, **binary) == 415
    taking = Guard.create("127.0.0.1", other_media_types=["application/octet-stream"])
    assert status(taking, **binary) == 200


def test_a_refusal_says_what_to_do_and_repeats_little_of_what_was_sent():
    unknown = LOCAL.check(head(host="kafka-ui")).message
    assert "'kafka-ui'" in unknown
    assert "http.allowed.hosts" in unknown
    assert len(LOCAL.check(head(origin="x" * 10_000)).message) < 400


@given(st.text(max_size=40), st.lists(st.text(max_size=40), max_size=2), st.binary(max_size=3))
def test_every_request_is_decided(host, origins, body):
    fields = [("host", host), *(("origin", one) for one in origins)]
    fields.append(("content-length", body.decode("latin-1")))
    refusal = LOCAL.check(RequestHead.from_headers("POST", fields, None))
    assert refusal is None or refusal.status in (400, 403, 415)
