"""Registries on strom and on the real Kafka, and a way to ask them anything."""

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx2
import pytest

from strom.registry.server import RegistryServer
from tests.conftest import Target


class Answer(NamedTuple):
    status: int
    body: Any
    content_type: str

    @property
    def error(self) -> int:
        return int(self.body["error_code"])


class Asker:
    """Asks a registry as a client without any library would."""

    def __init__(self, url: str) -> None:
        self._http = httpx2.Client(timeout=30)
        self._url = url.rstrip("/")

    def __call__(self, method: str, path: str, body: Any = None, **query: Any) -> Answer:
        answer = self._http.request(
            method,
            self._url + path,
            # With Python's NaN and Infinity, which are no JSON: a registry has to refuse them.
            content=None if body is None else json.dumps(body).encode(),
            headers={"content-type": "application/json"},
            params=query or None,
        )
        return Answer(answer.status_code, answer.json(), answer.headers["content-type"])

    def raw(self, method: str, path: str, content: bytes) -> Answer:
        headers = {"content-type": "application/json"}
        answer = self._http.request(method, self._url + path, content=content, headers=headers)
        return Answer(answer.status_code, answer.json(), answer.headers["content-type"])

    def register(self, subject: str, schema: Any, **more: Any) -> Answer:
        path = f"/subjects/{quote(subject, safe='')}/versions"
        return self("POST", path, {"schema": as_text(schema), **more})

    def close(self) -> None:
        self._http.close()


def as_text(schema: Any) -> str:
    return schema if isinstance(schema, str) else json.dumps(schema)


def record(*fields: Any, name: str = "Click") -> dict[str, Any]:
    """An Avro record; a field by its name alone is an int without a default."""
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": one, "type": "int"} if isinstance(one, str) else one for one in fields],
    }


def optional(name: str, kind: Any = "int") -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


@pytest.fixture(scope="session")
def strom_registry(strom_server: Target) -> Iterator[RegistryServer]:
    with RegistryServer(strom_server.bootstrap_servers) as server:
        yield server


@pytest.fixture(scope="session")
def kafka_registry(kafka_server: Target) -> Iterator[RegistryServer]:
    with RegistryServer(kafka_server.bootstrap_servers) as server:
        yield server


@pytest.fixture
def registry(request: pytest.FixtureRequest, target: Target) -> RegistryServer:
    """A registry on whichever broker is under test."""
    found: RegistryServer = request.getfixturevalue(f"{target.name}_registry")
    return found


@pytest.fixture
def ask(strom_registry: RegistryServer) -> Iterator[Asker]:
    """Asks the registry that all tests share: name your own subjects."""
    asker = Asker(strom_registry.url)
    yield asker
    asker.close()


@pytest.fixture
def ask_alone(strom_server: Target, new_topic_name: Callable[[], str]) -> Iterator[Asker]:
    """Asks a registry of one's own, with a topic of its own."""
    with RegistryServer(strom_server.bootstrap_servers, topic=new_topic_name()) as server:
        asker = Asker(server.url)
        yield asker
        asker.close()


@pytest.fixture
def subject(topic: str) -> str:
    """A subject of one's own."""
    return f"{topic}-value"
