"""The management interface, with the calls that people use most."""

import base64
import json
import socket
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import pytest

from strom.testing import LocalBroker
from tests.conformance_amqp.asking import bodies, count
from tests.http.pages import check_foreign_pages_are_refused, send


def test_who_does_not_log_in_learns_nothing(ask):
    assert ask("GET", "/api/overview", login="guest:wrong")[0] == 401
    assert ask("GET", "/api/overview", login="nobody")[0] == 401


def test_a_page_of_another_site_cannot_change_anything(ask, broker):
    login = "Basic " + base64.b64encode(b"guest:guest").decode()  # a browser sends it by itself
    body = json.dumps(
        {"properties": {}, "routing_key": "q", "payload": "", "payload_encoding": "string"}
    )
    publish = "/api/exchanges/%2F/amq.default/publish"
    check_foreign_pages_are_refused(
        broker.management_url, "/api/overview", publish, body.encode(), Authorization=login
    )
    assert ask("PUT", "/api/queues/%2F/q", {}, kind="text/plain")[0] == 415
    assert ask("PUT", "/api/queues/%2F/q", {}, kind="text/plain; json")[0] == 415
    assert ask("OPTIONS", "/api/queues/%2F/q")[0] == 404


def test_the_overview_counts(ask, channel):
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"m")
    channel.basic_get("q")
    channel.basic_publish("", "q", b"m")
    _, overview = ask("GET", "/api/overview")
    assert overview["queue_totals"] == {
        "messages": 2,
        "messages_ready": 1,
        "messages_unacknowledged": 1,
    }
    assert overview["object_totals"]["queues"] == 1


def test_queues_are_made_shown_and_removed(ask, channel):
    arguments = {"x-max-length": 5}
    assert ask("PUT", "/api/queues/%2F/q", {"arguments": arguments})[0] == 201
    channel.basic_publish("", "q", b"m")
    status, queue = ask("GET", "/api/queues/%2F/q")
    assert status == 200
    assert (queue["messages_ready"], queue["durable"], queue["arguments"]) == (1, True, arguments)
    assert [one["name"] for one in ask("GET", "/api/queues")[1]] == ["q"]
    assert ask("PUT", "/api/queues/%2F/q", {"arguments": {}})[0] == 400
    assert ask("DELETE", "/api/queues/%2F/q/contents")[0] == 204
    assert count(channel, "q") == 0
    assert ask("DELETE", "/api/queues/%2F/q")[0] == 204
    assert ask("GET", "/api/queues/%2F/q")[0] == 404


def test_exchanges_and_bindings(ask, channel):
    assert ask("PUT", "/api/exchanges/%2F/x", {"type": "topic"})[0] == 201
    assert ask("PUT", "/api/exchanges/%2F/y", {"type": "nonsense"})[0] == 400
    channel.queue_declare("q")
    path = "/api/bindings/%2F/e/x/q/q"
    assert ask("POST", path, {"routing_key": "a.*", "arguments": {"n": 1}})[0] == 201
    [binding] = ask("GET", path)[1]
    assert (binding["routing_key"], binding["arguments"]) == ("a.*", {"n": 1})
    assert ask("GET", "/api/queues/%2F/q/bindings")[1] == [binding]
    published = ask(
        "POST",
        "/api/exchanges/%2F/x/publish",
        {"routing_key": "a.b", "payload": "hi", "properties": {"headers": {"k": "v"}}},
    )
    assert published == (200, {"routed": True})
    assert bodies(channel, "q") == [b"hi"]
    assert ask("DELETE", path + "/a.%2A")[0] == 204
    assert ask("DELETE", path + "/a.%2A")[0] == 404
    assert ask("DELETE", "/api/exchanges/%2F/x")[0] == 204


def test_getting_messages_leaves_or_takes_them(ask, channel):
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"text")
    channel.basic_publish("", "q", b"\xff")
    path = "/api/queues/%2F/q/get"
    _, shown = ask("POST", path, {"count": 5, "ackmode": "ack_requeue_true"})
    assert [(one["payload"], one["payload_encoding"]) for one in shown] == [
        ("text", "string"),
        ("/w==", "base64"),
    ]
    assert count(channel, "q") == 2
    _, [taken] = ask("POST", path, {"count": 1, "ackmode": "ack_requeue_false"})
    assert (taken["payload"], taken["redelivered"]) == ("text", True)
    assert count(channel, "q") == 1


@pytest.mark.parametrize("mode", [1, 5, None, [], {}, True, "ack", "ack_requeue_flase"])
def test_an_unknown_ackmode_takes_no_message(mode, ask, channel):
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"text")
    status, said = ask("POST", "/api/queues/%2F/q/get", {"count": 1, "ackmode": mode})
    assert status == 400
    assert "ack_requeue_false" in said["reason"]
    assert count(channel, "q") == 1


@pytest.mark.parametrize("wrong", [{"routing_key": 5}, {"routing_key": None}])
def test_a_message_whose_routing_key_is_no_text_is_refused(wrong, ask):
    message = {"payload": "x", **wrong}
    assert ask("POST", "/api/exchanges/%2F/amq.topic/publish", message)[0] == 400


@pytest.mark.parametrize(
    "given",
    [{"type": {}}, {"type": "x-delayed-message", "arguments": {"x-delayed-type": []}}],
)
def test_the_type_of_an_exchange_must_be_a_name(ask, given):
    status, _ = ask("PUT", "/api/exchanges/%2F/x", given)
    assert status == 400


def test_publishing_to_the_default_exchange_and_in_base64(ask, channel):
    channel.queue_declare("q")
    message = {"routing_key": "q", "payload": "/w==", "payload_encoding": "base64"}
    assert ask("POST", "/api/exchanges/%2F/amq.default/publish", message)[0] == 200
    assert bodies(channel, "q") == [b"\xff"]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"routing_key": "q"},
        {"routing_key": "q", "payload": 5},
        {"routing_key": "q", "payload": "%", "payload_encoding": "base64"},
        {"routing_key": "q", "payload": "", "properties": {"nonsense": 1}},
    ],
)
def test_what_is_no_message_is_refused(ask, given):
    assert ask("POST", "/api/exchanges/%2F/amq.default/publish", given)[0] == 400


def test_definitions_move_from_broker_to_broker(ask, channel, broker):
    channel.exchange_declare("x", "headers", durable=True)
    channel.queue_declare("q", durable=True, arguments={"x-message-ttl": 5000})
    channel.queue_bind("q", "x", arguments={"x-match": "any", "a": 1})
    ask("PUT", "/api/vhosts/other")
    _, definitions = ask("GET", "/api/definitions")
    with LocalBroker(queues=True) as second:
        request = urllib.request.Request(
            second.management_url + "/api/definitions",
            json.dumps(definitions).encode(),
            {
                "Authorization": "Basic " + base64.b64encode(b"guest:guest").decode(),
                "Content-Type": "application/json",
            },
        )
        for _ in range(2):
            with urllib.request.urlopen(request, timeout=20) as answer:
                assert answer.status == 204
        request = urllib.request.Request(
            second.management_url + "/api/definitions", headers=dict(request.headers)
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert json.loads(answer.read()) == definitions


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"GET /api/overview HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /api/definitions HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
        b"POST /api/definitions HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nContent-Length: 2\r\n\r\n{}",
        b"GET //[ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /api/definitions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000,
    ],
)
def test_bad_requests_are_answered_or_dropped(broker, ask, sent, caplog):
    address = urlsplit(broker.management_url)
    with socket.create_connection((address.hostname, address.port), timeout=20) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        answer = client.recv(65536)
    assert answer == b"" or answer.split()[1] in (b"400", b"401", b"411", b"413")
    assert caplog.records == []
    assert ask("GET", "/api/whoami")[0] == 200


def test_hosts_are_known_by_setting_and_by_being_advertised():
    names = {"http.allowed.hosts": "queues.example.com", "advertised.host": "localhost"}
    login = "Basic " + base64.b64encode(b"guest:guest").decode()
    with LocalBroker(queues=True, settings=names) as broker:
        for host, status in (
            ("queues.example.com:15672", 200),
            ("localhost", 200),
            ("other.example.com", 403),
        ):
            given = {"Host": host, "Authorization": login}
            assert send(broker.management_url, path="/api/overview", **given).status == status
