"""Media types of requests and responses, as Confluent's registry negotiates them."""

import http.client
import json
from urllib.parse import urlsplit

import pytest

from strom.registry.rest.negotiation import choose
from tests.http.pages import send

V1 = "application/vnd.schemaregistry.v1+json"
VND = "application/vnd.schemaregistry+json"
JSON = "application/json"
BODY = json.dumps({"schema": '"string"'}).encode()


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ("", V1),
        ("*/*", V1),
        ("application/*", V1),
        ("*", V1),
        (V1, V1),
        (VND, VND),
        (JSON, JSON),
        ("Application/JSON; charset=utf-8", JSON),
        (f"{V1}, {VND}; q=0.9, {JSON}; q=0.5", V1),
        (f"{V1};q=0.1, {JSON}", JSON),
        (f"{JSON}, */*", V1),
        (f"{V1};q=0, */*", VND),
        ("text/html, application/xml;q=0.9, */*;q=0.1", V1),
        ("text/html", None),
        ("application/xml, text/plain", None),
        (f"{JSON};q=0", None),
        (f"{JSON};q=x", None),
        (",;=", None),
    ],
)
def test_the_preferred_type_among_the_accepted(accept, chosen):
    assert choose(accept) == chosen


@pytest.mark.parametrize("accept", [V1, VND, JSON])
def test_a_response_has_the_accepted_type(strom_registry, accept):
    identity = send(
        strom_registry.url, "POST", "/subjects/typed/versions", BODY, Content_Type=JSON
    ).body["id"]
    for path in ("/subjects", f"/schemas/ids/{identity}", f"/schemas/ids/{identity}"):
        assert content_type(strom_registry.url, path, accept) == (200, accept)


def content_type(url, path, accept):
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=20)
    try:
        connection.request("GET", path, headers={"Accept": accept})
        response = connection.getresponse()
        return response.status, response.getheader("Content-Type")
    finally:
        connection.close()


def test_a_health_check_may_accept_any_type(strom_registry):
    assert content_type(strom_registry.url, "/health", "text/plain") == (200, V1)


def test_what_is_not_accepted_has_406(strom_registry):
    for path in ("/subjects", "/schemas/ids/1"):
        status, body = send(strom_registry.url, path=path, Accept="text/html")
        assert (status, body["error_code"]) == (406, 406)
        assert body["message"] == "HTTP 406 Not Acceptable"


@pytest.mark.parametrize("kind", ["application/xml", "application/ld+json", "text/plain"])
def test_other_bodies_have_415_and_change_nothing(strom_registry, kind):
    url = strom_registry.url
    status, body = send(url, "POST", "/subjects/untyped/versions", BODY, Content_Type=kind)
    assert (status, body["error_code"]) == (415, 415)
    assert "untyped" not in send(url, path="/subjects").body


def test_a_type_without_a_body_does_not_matter(strom_registry):
    assert send(strom_registry.url, path="/subjects", Content_Type="text/plain").status == 200
