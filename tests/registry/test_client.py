"""strom's own client of registries."""

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from strom.model.errors import UserError
from strom.model.retries import RetryPolicy
from strom.registry.client import (
    Reference,
    RegisteredSchema,
    RegistryClient,
    RegistryError,
    RegistryUnreachable,
)
from tests.registry.conftest import optional, record

ONE = json.dumps(record("ms"))
TWO = json.dumps(record("ms", optional("user")))


@pytest.fixture
def client(strom_registry):
    with RegistryClient(strom_registry.url) as made:
        yield made


def test_a_schema_is_registered_found_and_read(client, subject):
    schema_id = client.register(subject, ONE)
    assert client.lookup(subject, ONE) == schema_id
    assert client.lookup(subject, TWO) is None
    assert client.lookup(f"{subject}-nobody", ONE) is None
    found = client.schema(schema_id)
    assert (found.id, found.kind, json.loads(found.text)) == (schema_id, "AVRO", json.loads(ONE))
    newest = client.latest(subject)
    assert (newest.subject, newest.version, newest.id) == (subject, 1, schema_id)


def test_references_are_listed(client, subject):
    client.register(f"{subject}-click", ONE)
    using = json.dumps(record({"name": "click", "type": "Click"}, name="Session"))
    reference = Reference("Click", f"{subject}-click", 1)
    schema_id = client.register(subject, using, "AVRO", [reference])
    assert client.schema(schema_id).references == (reference,)


def test_compatibility_comes_with_reasons(client, subject):
    client.register(subject, ONE)
    assert client.compatible(subject, TWO) == []
    assert client.compatible(subject, '"int"') != []
    assert client.compatible(subject, TWO, version=1) == []


def test_a_refusal_has_status_code_and_message(client, subject):
    client.register(subject, ONE)
    with pytest.raises(RegistryError, match="incompatible") as refused:
        client.register(subject, '"int"')
    assert (refused.value.status, refused.value.code) == (409, 409)
    with pytest.raises(RegistryError, match="not found") as refused:
        client.latest(f"{subject}-nobody")
    assert refused.value.code == 40401


def test_what_an_id_means_is_asked_once(strom_registry, subject):
    with RegistryClient(strom_registry.url) as client:
        schema_id = client.register(subject, ONE)
        first = client.schema(schema_id)
        client.urls[:] = ["http://127.0.0.1:1"]
        assert client.schema(schema_id) is first
        assert client.register(subject, ONE) == schema_id


def test_the_next_address_is_asked_when_one_is_away(strom_registry, subject):
    with RegistryClient(f"http://127.0.0.1:1, {strom_registry.url}/") as client:
        assert client.register(subject, ONE) > 0


def test_a_missing_registry_is_reported_in_words():
    with (
        RegistryClient("http://127.0.0.1:1", retries=RetryPolicy(0.01, attempts=2)) as client,
        pytest.raises(RegistryUnreachable, match="strom registry"),
    ):
        client.latest("s")


def test_an_address_that_is_none_is_refused():
    with pytest.raises(UserError, match="Invalid URL"):
        RegistryClient("127.0.0.1:8081")


@pytest.mark.parametrize(
    ("auth", "token", "header"),
    [(("user", "pass"), None, "Basic dXNlcjpwYXNz"), (None, "secret", "Bearer secret")],
)
def test_a_failing_registry_is_asked_again_and_logins_are_sent(auth, token, header):
    """A stand-in that fails once, as a registry does whose broker is away for a moment."""
    seen = []

    class Failing(BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(self.headers["Authorization"])
            answer = b'{"schema": "\\"int\\""}' if len(seen) > 1 else b"broken"
            self.send_response(200 if len(seen) > 1 else 500)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *arguments):
            pass

    server = HTTPServer(("127.0.0.1", 0), Failing)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        with RegistryClient(
            url, auth, token=token, retries=RetryPolicy(0.01, attempts=2)
        ) as client:
            assert client.schema(1) == RegisteredSchema(1, "AVRO", '"int"')
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert seen == [header, header]


def test_a_lost_connection_is_tried_again():
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"

    def hang_up_then_answer():
        listening.accept()[0].close()
        connection = listening.accept()[0]
        connection.recv(4096)
        connection.sendall(
            b'HTTP/1.1 200 OK\r\nContent-Length: 18\r\nConnection: close\r\n\r\n{"schema":"\\"a\\""}'
        )
        connection.close()

    thread = threading.Thread(target=hang_up_then_answer)
    thread.start()
    with RegistryClient(url, retries=RetryPolicy(0.01, attempts=3)) as client:
        assert client.schema(5).text == '"a"'
    thread.join()
    listening.close()
