"""Limits of time and number: each ends the connection of its client, while others are served."""

import contextlib
import json
import time

import pytest

from strom.http.authentication import BasicLogin
from strom.model.http_settings import HttpLimits
from strom.server.process_limits import ConnectionSlots
from tests.http.small_server import HOST, JSON, read_one, read_to_end, responses, running

BODY_TO_COME = b"POST /a HTTP/1.1\r\n" + JSON + b"Content-Length: 10\r\n\r\n"
GET = b"GET /a HTTP/1.1\r\n" + HOST + b"\r\n"


def until(condition):
    """Wait; the time limit of the test ends a wait for nothing."""
    while not condition():
        time.sleep(0.005)


def check_served(server):
    assert server.get(b"/other")[0] == 200


def check_timed_out(raw, part):
    [(status, body)] = responses(raw)
    assert status == 408
    assert f"The {part} of the request" in json.loads(body)["error"]


def test_a_half_sent_head_ends_its_connection():
    with running(limits=HttpLimits(head_s=0.1)) as server, server.connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\nX: ")
        check_served(server)
        check_timed_out(read_to_end(client), "head")


def test_a_head_that_drips_in_ends_its_connection():
    with running(limits=HttpLimits(head_s=0.3)) as server, server.connect() as client:
        client.settimeout(0.02)
        received = drip(client, b"GET / HTTP/1.1\r\nX: ")
        check_served(server)
        check_timed_out(received, "head")


def test_a_body_that_drips_in_ends_its_connection(caplog):
    with running(limits=HttpLimits(body_s=0.3)) as server, server.connect() as client:
        client.settimeout(0.02)
        received = drip(client, b"POST /a HTTP/1.1\r\n" + JSON + b"Content-Length: 9999\r\n\r\n")
        check_served(server)
        check_timed_out(received, "body")
        until(lambda: server.app.disconnects == 1)
    assert caplog.records == []


def drip(client, beginning):
    """Send a byte whenever nothing comes back, until something does."""
    client.sendall(beginning)
    while True:
        try:
            return client.recv(65536)
        except TimeoutError:
            client.sendall(b"x")


def test_a_connection_that_sends_nothing_ends():
    with running(limits=HttpLimits(idle_s=0.1)) as server, server.connect() as client:
        assert read_to_end(client) == b""


def test_an_idle_connection_ends_after_its_response():
    with running() as server, server.connect() as client:
        client.sendall(GET)
        assert read_one(client)[0] == 200
        [connection] = server.server._state.connections
        connection.timeout_keep_alive = 0.1  # from now on: the first request may take its time
        client.sendall(GET)
        assert read_one(client)[0] == 200
        assert read_to_end(client) == b""


def test_a_second_request_has_its_own_time():
    with running(limits=HttpLimits(head_s=0.2)) as server, server.connect() as client:
        client.sendall(GET)
        assert read_one(client)[0] == 200
        client.sendall(b"GET /")
        check_timed_out(read_to_end(client), "head")


def test_a_request_that_takes_long_to_handle_is_not_timed_out():
    limits = HttpLimits(head_s=0.05, body_s=0.05)
    with running(limits=limits) as server, server.connect() as client:
        client.sendall(b"POST /wait HTTP/1.1\r\n" + JSON + b"Content-Length: 2\r\n\r\n{}")
        until(server.app.waiting.is_set)
        with server.connect() as other:
            other.sendall(b"GET")
            check_timed_out(read_to_end(other), "head")
        server.call(server.app.go_on.set)
        assert read_one(client)[0] == 200


def test_a_client_that_does_not_read_its_response_is_disconnected():
    with running(limits=HttpLimits(write_s=0.1)) as server, server.connect() as client:
        client.sendall(b"GET /flood HTTP/1.1\r\n" + HOST + b"\r\n")
        assert client.recv(12) == b"HTTP/1.1 200"
        check_served(server)
        until(lambda: server.connections == 0)


def test_connections_above_the_limit_are_closed_while_others_have_requests_in_flight():
    with running(limits=HttpLimits(connections=1)) as server:
        with server.connect() as first:
            first.sendall(b"GET /wait HTTP/1.1\r\n" + HOST + b"\r\n")
            until(server.app.waiting.is_set)
            with server.connect() as second:
                assert read_to_end(second) == b""
            server.call(server.app.go_on.set)
            assert read_one(first)[0] == 200
        until(lambda: server.connections == 0)
        check_served(server)


def test_the_connection_that_has_been_idle_longest_makes_room_for_another_client():
    with running(limits=HttpLimits(connections=3)) as server, contextlib.ExitStack() as opened:
        clients = [opened.enter_context(server.connect()) for _ in range(3)]
        for one in (*clients, clients[0]):
            one.sendall(GET)
            assert read_one(one)[0] == 200
        # The client may have its response before the server has noted that it is complete.
        until(lambda: all(one._is_idle() for one in server.server._state.connections))
        new = opened.enter_context(server.connect())
        new.sendall(GET)
        assert read_one(new)[0] == 200
        assert read_to_end(clients[1]) == b""
        for one in (clients[0], clients[2], new):
            one.sendall(GET)
            assert read_one(one)[0] == 200


def test_connections_that_became_idle_in_the_same_millisecond_make_room_in_their_order():
    count = 20
    with (
        running(limits=HttpLimits(connections=count)) as server,
        contextlib.ExitStack() as opened,
    ):
        clients = [opened.enter_context(server.connect()) for _ in range(count)]
        for number, one in enumerate(clients):
            one.sendall(b"GET /%d HTTP/1.1\r\n" % number + HOST + b"\r\n")
        for one in clients:
            assert read_one(one)[0] == 200
        until(lambda: all(one._is_idle() for one in server.server._state.connections))
        for path in server.app.requests[:3]:
            new = opened.enter_context(server.connect())
            new.sendall(GET)
            assert read_one(new)[0] == 200
            assert read_to_end(clients[int(path[1:])]) == b""


def test_half_sent_heads_make_room_for_other_clients():
    check_half_sent_heads(HttpLimits(connections=20))


def test_connections_leave_the_process_half_of_its_files(monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (40, 40))
    check_half_sent_heads(HttpLimits())


def check_half_sent_heads(limits):
    """More of them than the 20 connections that there may be."""
    with running(limits=limits) as server:
        slow = [server.connect() for _ in range(60)]
        try:
            for one in slow:
                with contextlib.suppress(ConnectionError):
                    one.sendall(b"GET / HTTP/1.1\r\nX: ")
            check_served(server)
            assert server.connections <= 20
        finally:
            for one in slow:
                one.close()


def body_in_flight(server, size, path=b"/a"):
    """A client whose body of this size lacks its last byte, and has been read by the application."""
    client = server.connect()
    client.sendall(b"POST %b HTTP/1.1\r\n" % path + JSON + b"Content-Length: %d\r\n\r\n" % size)
    client.sendall(b"x" * (size - 1))
    return client


def test_the_memory_of_all_bodies_is_limited():
    limits = HttpLimits(small_body_bytes=1000, all_bodies_bytes=300_000)
    with running(limits=limits) as server:
        with body_in_flight(server, 200_001), body_in_flight(server, 500) as small:
            until(lambda: server.server._bodies._held == 199_000)
            with body_in_flight(server, 200_001) as refused:
                status, body = read_one(refused)
                assert status == 503
                assert "Bodies of other requests hold" in json.loads(body)["error"]
                # Its connection goes on, once the rest of the body has come.
                refused.sendall(b"x" + GET)
                assert read_one(refused)[0] == 200
            small.sendall(b"x")
            assert read_one(small)[0] == 200
        until(lambda: server.server._bodies._held == 0)
        with body_in_flight(server, 200_001) as accepted:
            accepted.sendall(b"x")
            assert read_one(accepted)[0] == 200


def test_a_request_without_login_is_refused_before_its_body_is_read():
    login = BasicLogin("user", "secret", "small", lambda user, address: True)
    with running(authenticate=login) as server, server.connect() as client:
        client.sendall(b"POST /a HTTP/1.1\r\n" + JSON + b"Content-Length: 16000000\r\n\r\n")
        assert read_one(client)[0] == 401
        client.sendall(b"x" * 16_000_000 + GET)  # discarded, not kept
        assert read_one(client)[0] == 401
        assert server.app.requests == []
        assert server.server._bodies._held == 0


def test_connections_count_against_slots_that_are_shared_with_other_servers():
    slots = ConnectionSlots(2)
    slots.take("a Kafka client", "10.0.0.1")
    with running(slots=slots) as server:
        with server.connect() as first:
            first.sendall(GET)
            assert read_one(first)[0] == 200
            with server.connect() as second:
                assert read_to_end(second) == b""
        until(lambda: server.connections == 0)
        check_served(server)
    assert slots.take("another Kafka client", "10.0.0.1")


def test_a_client_above_the_limit_of_its_address_takes_no_other_ones_place():
    slots = ConnectionSlots(10, per_address=1)
    with (
        running(limits=HttpLimits(connections=1), slots=slots) as server,
        server.connect() as first,
    ):
        until(lambda: server.connections == 1)
        with server.connect() as second:
            assert read_to_end(second) == b""
        first.sendall(GET)
        assert read_one(first)[0] == 200


def test_a_client_that_ends_in_the_middle_of_its_body_is_forgotten(caplog):
    with running() as server:
        with server.connect() as client:
            client.sendall(BODY_TO_COME + b"{")
            until(lambda: server.app.requests)
        until(lambda: server.app.disconnects == 1)
        until(lambda: server.connections == 0)
        check_served(server)
    assert caplog.records == []
