"""What of the registry's REST a web page of another site reaches: nothing."""

import json

import pytest

from strom.model.errors import UserError
from strom.registry.server import RegistryServer
from tests.http.pages import EVIL, check_foreign_pages_are_refused, send

BODY = json.dumps({"schema": '"string"'}).encode()
VERSIONS = "/subjects/s/versions"


@pytest.fixture(scope="module")
def url(strom_server):
    servers = strom_server.bootstrap_servers
    with RegistryServer(
        servers, topic="_guarded_schemas", allowed_hosts=["registry.example.com"]
    ) as running:
        yield running.url


def test_a_page_can_neither_register_nor_read(url):
    check_foreign_pages_are_refused(url, "/subjects", "/subjects/page/versions", BODY)
    assert "page" not in send(url, path="/subjects").body


def test_the_fast_path_for_ids_is_guarded_too(url):
    registered = send(url, "POST", VERSIONS, BODY, Content_Type="application/json")
    path = f"/schemas/ids/{registered.body['id']}"
    assert send(url, path=path).status == 200
    status, body = send(url, path=path, Origin=EVIL)
    assert (status, body["error_code"]) == (403, 403)


@pytest.mark.parametrize(
    "kind",
    [
        "application/vnd.schemaregistry.v1+json",
        "application/vnd.schemaregistry+json",
        "application/json; charset=utf-8",
        "application/octet-stream",
    ],
)
def test_bodies_have_the_types_that_confluents_clients_send(url, kind):
    assert send(url, "POST", VERSIONS, BODY, Content_Type=kind).status == 200


def test_a_malformed_allowed_host_is_reported_before_anything_starts():
    with pytest.raises(UserError, match=r"http\.allowed\.hosts"):
        RegistryServer("127.0.0.1:1", allowed_hosts=["registry.example.com:8081"])


def test_allowed_hosts_are_served(url):
    assert send(url, path="/subjects", Host="registry.example.com").status == 200
