"""Anything on any HTTP port: no server fails, and each serves the next honest request."""

import contextlib
import logging
import os
import socket
import time
from urllib.parse import urlsplit

import pytest

from strom.connect.runtime.rest.server import RunningWorker
from strom.model.http_settings import HttpLimits
from strom.pipelines.serving.http import ServingServer, listen
from strom.pipelines.serving.queries import QueryEngine
from strom.registry.server import RegistryServer
from strom.testing import LocalBroker
from tests.fuzz.http_requests import HOST, JSON, VOCABULARIES, Requests
from tests.http.small_server import read_to_end
from tests.pipelines.served import served_manifests

REQUESTS = 300
MANY_REQUESTS = 3_000
SEED = int(os.environ.get("STROM_SEED", "20261118"))
"""The default run judges a change: it tries the same requests each time. The long run finds new ones."""
LIMITS = HttpLimits()
HEAD = b" HTTP/1.1\r\n" + HOST
CLOSE = b"Connection: close\r\n\r\n"


@pytest.fixture(scope="module")
def ports(tmp_path_factory):
    """The port of each server."""
    with contextlib.ExitStack() as running:
        settings = {"metrics.port": "-1"}
        broker = running.enter_context(LocalBroker(settings=settings, queues=True))
        servers = broker.bootstrap_servers
        registry = running.enter_context(RegistryServer(servers))
        worker = RunningWorker({"bootstrap.servers": servers, "rest.port": "0", "group.id": "fuzz"})
        running.enter_context(worker)
        manifests = served_manifests(tmp_path_factory.mktemp("views"))
        engine = running.enter_context(contextlib.closing(QueryEngine(manifests)))
        serving = ServingServer(manifests, engine, listen("127.0.0.1", 0))
        running.callback(serving.stop)
        urls = {
            "registry": registry.url,
            "connect": worker.url,
            "management": broker.management_url,
            "serving": serving.start(),
            "metrics": broker.metrics_url,
        }
        found = {name: urlsplit(url).port for name, url in urls.items()}
        exchange(found["management"], b"PUT /api/queues/%2F/q" + HEAD + CLOSE)
        yield found


def exchange(port, data, *, ends=False):
    """Everything that comes back until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        with contextlib.suppress(OSError):  # it may have refused the request already
            client.sendall(data)
            if ends:
                client.shutdown(socket.SHUT_WR)
        return read_to_end(client)


def status_of(raw):
    return int(raw.split(b" ", 2)[1]) if raw.startswith(b"HTTP/1.1 ") else None


def check_healthy(port):
    assert status_of(exchange(port, b"GET /health/ready" + HEAD + CLOSE)) == 200


def failures(caplog):
    return [one for one in caplog.records if one.exc_info or one.levelno >= logging.ERROR]


def check_structured(port, name, seed, caplog, count):
    requests = Requests(VOCABULARIES[name], seed)
    for number in range(count):
        request = requests.structured()
        status = status_of(exchange(port, request))
        assert status is not None, request
        assert status < 500, (number, status, request[:2000], failures(caplog))
    check_healthy(port)
    assert failures(caplog) == []


def check_mutated(port, name, seed, caplog, count):
    requests = Requests(VOCABULARIES[name], seed)
    for number in range(count):
        request = requests.mutated()
        status = status_of(exchange(port, request, ends=True))
        assert status not in (500, 502), (number, request[:2000], failures(caplog))
    check_healthy(port)
    assert failures(caplog) == []


@pytest.mark.parametrize("name", VOCABULARIES)
def test_well_formed_requests_with_anything_in_them(ports, name, caplog):
    check_structured(ports[name], name, SEED, caplog, REQUESTS)


@pytest.mark.parametrize("name", VOCABULARIES)
def test_bytes_that_are_almost_requests(ports, name, caplog):
    check_mutated(ports[name], name, SEED, caplog, REQUESTS)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", VOCABULARIES)
def test_very_many_requests(ports, name, seed, caplog):
    check_structured(ports[name], name, seed, caplog, MANY_REQUESTS)
    check_mutated(ports[name], name, seed, caplog, MANY_REQUESTS)


def sized(size, body=b""):
    return HEAD + JSON + b"Content-Length: %d\r\n\r\n" % size + body


CHUNKED = HEAD + JSON + b"Transfer-Encoding: chunked\r\n\r\n"
BOMBS = {
    "a body of 600 MB": (sized(600_000_000), 413),
    "a chunk of 600 MB": (CHUNKED + b"23c34600\r\n" + b"x" * 17_000_000, 413),
    "chunks without end": (CHUNKED + b"100000\r\n" + (b"x" * 2**20 + b"\r\n100000\r\n") * 17, 413),
    "chunks of one byte": (CHUNKED + b"1\r\nx\r\n" * 20_000, 400),
    "a chunk extension without end": (CHUNKED + b"1;" + b"x" * 200_000, 431),
    "a header without end": (HEAD + b"X: " + b"x" * 200_000, 431),
    "headers without end": (HEAD + b"X: y\r\n" * 20_000, 431),
    "a compressed body": (
        HEAD
        + JSON
        + b"Content-Encoding: gzip\r\nContent-Length: 4\r\nConnection: close\r\n\r\n\x1f\x8b\x08\0",
        None,
    ),
    "deep JSON": (sized(4_000_000, b"[" * 4_000_000) + b"GET / HTTP/1.1\r\n" + HOST + CLOSE, None),
    "many values": (
        sized(6_000_002, b"[" + b"[]," * 2_000_000 + b"]") + b"GET / HTTP/1.1\r\n" + HOST + CLOSE,
        None,
    ),
    "a number of a million digits": (
        sized(1_000_000, b"9" * 1_000_000) + b"GET / HTTP/1.1\r\n" + HOST + CLOSE,
        None,
    ),
}
TARGETS = {
    "registry": b"POST /subjects/s/versions",
    "connect": b"POST /connectors",
    "management": b"POST /api/definitions",
    "serving": b"POST /query",
    "metrics": b"POST /metrics",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_do_not_go_off(ports, bomb, caplog):
    data, expected = BOMBS[bomb]
    for name, target in TARGETS.items():
        status = status_of(exchange(ports[name], target + data))
        if expected is not None:
            assert status in (expected, 404, 405), (name, status)
        assert status is not None, name
        assert 400 <= status < 500, (name, status)
        check_healthy(ports[name])
    assert failures(caplog) == []


def test_a_client_that_ends_in_the_middle_of_its_body_leaves_no_traceback(ports, caplog):
    for name, target in TARGETS.items():
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", ports[name]), timeout=60) as client:
                client.sendall(target + sized(1000, b'{"a'))
                time.sleep(0.01)  # so that some of them are being read
        check_healthy(ports[name])
    assert failures(caplog) == []


def test_half_sent_requests_do_not_keep_honest_clients_out(ports):
    """More than a server admits: the oldest make room."""
    for name in ("registry", "connect", "serving"):
        with contextlib.ExitStack() as slow:
            for _ in range(LIMITS.connections + 100):
                address = ("127.0.0.1", ports[name])
                client = slow.enter_context(socket.create_connection(address, timeout=60))
                with contextlib.suppress(ConnectionError):
                    client.sendall(b"GET / HTTP/1.1\r\nX: ")
            check_healthy(ports[name])
