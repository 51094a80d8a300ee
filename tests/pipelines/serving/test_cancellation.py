"""Statements end when their client has gone. Tests wait for events, and never measure time."""

import json
import socket
import threading
import time
import urllib.error
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

import pytest

from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.serving.cancellation import Cancellation, StatementCancelled
from strom.pipelines.serving.http import ServingServer, listen
from strom.pipelines.serving.queries import QueryEngine
from strom.pipelines.views.manifests import ViewSegment
from tests.pipelines.served import append, get, served_manifests

ENDLESS = "SELECT count(*) FROM range(1000000000000) AS r(i), page_minutes"


@pytest.fixture
def manifests(tmp_path):
    return served_manifests(tmp_path)


@pytest.fixture
def server(manifests):
    server = QueryEngine(manifests)
    yield server
    server.close()


@pytest.fixture
def http(manifests, server):
    http = ServingServer(manifests, server, listen("127.0.0.1", 0))
    yield http
    http.stop()


def until(condition):
    """Wait; the time limit of the test ends a wait for nothing."""
    while not condition():
        time.sleep(0.005)


def requested(address, path, sql):
    """A client that has sent a request, and does not read the response."""
    parts = urllib.parse.urlsplit(address)
    client = socket.create_connection((parts.hostname, parts.port))
    query = urllib.parse.urlencode({"sql": sql})
    client.sendall(f"GET {path}?{query} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
    return client


def test_a_statement_ends_when_its_client_has_gone(http, server):
    address = http.start()
    client = requested(address, "/query", ENDLESS)
    until(lambda: server.running == 1)
    client.close()
    until(lambda: server.running == 0)
    assert json.loads(get(address, "/query", sql="SELECT 1 AS n")) == [{"n": 1}]


def test_only_the_statement_of_the_client_that_has_gone_ends(http, server):
    address = http.start()
    gone, stays = (requested(address, "/query", ENDLESS) for _ in range(2))
    until(lambda: server.running == 2)
    gone.close()
    until(lambda: server.running == 1)
    assert json.loads(get(address, "/query", sql="SELECT 1 AS n")) == [{"n": 1}]
    assert server.running == 1
    stays.close()


def test_stopping_the_http_server_cancels_statements(http, server):
    address = http.start()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(get, address, "/query", sql=ENDLESS)
        until(lambda: server.running == 1)
        http.stop()
        with pytest.raises(urllib.error.HTTPError) as caught:
            asked.result()
    assert caught.value.code == 503
    assert "cancelled" in json.loads(caught.value.read())["error"]
    assert server.running == 0


def test_closing_a_server_cancels_statements_and_admits_no_others(manifests):
    server = QueryEngine(manifests)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(server.query, ENDLESS)
        until(lambda: server.running == 1)
        server.close()
        with pytest.raises(StatementCancelled):
            asked.result()
    with pytest.raises(StatementCancelled):
        server.query("SELECT 1")


def test_what_was_cancelled_before_it_began_does_not_begin(server):
    cancellation = Cancellation()
    cancellation.cancel()
    with pytest.raises(StatementCancelled):
        server.query(ENDLESS, (), cancellation)


def test_a_query_keeps_its_snapshot_while_states_are_refreshed(manifests, server):
    """The table that it reads is dropped meanwhile, and other queries see the new one."""
    began, refreshed = threading.Event(), threading.Event()

    def pause(number: int) -> int:
        began.set()
        refreshed.wait()
        return number

    server._connection.create_function("pause", pause, side_effects=True)
    total = "SELECT sum(views)::INT AS n FROM page_minutes"
    server.query(total)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(
            server.query, f"SELECT pause(i::INT) + ({total}) AS n FROM range(1) AS r(i)"
        )
        began.wait()
        append(
            manifests,
            ViewSegment(TopicOffsets((10,)), TopicOffsets((20,)), ("v1/0.parquet", "v1/6.parquet")),
        )
        assert server.query(total).to_pylist() == [{"n": 20}]
        refreshed.set()
        assert asked.result().to_pylist() == [{"n": 10}]


def test_a_client_that_does_not_read_its_response_does_not_keep_the_server(http, monkeypatch):
    monkeypatch.setattr("strom.pipelines.serving.http.STOP_SECONDS", 0.2)
    address = urllib.parse.urlsplit(http.start())
    query = urllib.parse.urlencode({"sql": "SELECT repeat('x', 20000000) AS text"})
    with socket.create_connection((address.hostname, address.port)) as client:
        request = f"GET /query?{query} HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n"
        client.sendall(request.encode())
        assert client.recv(12) == b"HTTP/1.1 200"
        http.stop()
