"""What of Connect's REST a web page of another site reaches: nothing."""

import json

import pytest

from strom.connect.runtime.rest.server import RunningWorker
from strom.model.errors import UserError
from tests.connect.runtime.workers import Rest, wait_until
from tests.http.pages import EVIL, check_foreign_pages_are_refused, send


@pytest.fixture(scope="module")
def settings(strom_server):
    return {
        "bootstrap.servers": strom_server.bootstrap_servers,
        "rest.port": "0",
        "rest.advertised.host.name": "localhost",
        "http.allowed.hosts": "connect.example.com",
        "group.id": "guard-tests",
        "config.storage.topic": "guard-tests-configs",
        "offset.storage.topic": "guard-tests-offsets",
        "status.storage.topic": "guard-tests-status",
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
    }


@pytest.fixture(scope="module")
def url(settings):
    with RunningWorker(settings) as worker:
        wait_until(lambda: Rest(worker.url).ask("GET", "/health")[0] == 200)
        yield worker.url


def test_a_page_cannot_have_a_file_read_into_a_topic(url):
    config = {"connector.class": "FileStreamSource", "file": "/etc/shadow", "topic": "taken"}
    body = json.dumps({"name": "thief", "config": config}).encode()
    check_foreign_pages_are_refused(url, "/connectors", "/connectors", body)
    assert send(url, path="/connectors").body == []


def test_a_refusal_has_the_form_of_kafkas_errors(url):
    status, body = send(url, path="/connectors", Origin=EVIL)
    assert (status, body["error_code"]) == (403, 403)
    assert "another origin" in body["message"]


def test_allowed_hosts_are_served(url):
    assert send(url, path="/connectors", Host="connect.example.com").status == 200
    assert send(url, path="/connectors", Host="other.example.com").status == 403


def test_requests_without_a_body_need_no_content_type(url):
    assert send(url, "PUT", "/connectors/none/pause").status == 404
    assert send(url, "POST", "/connectors/none/restart").status == 404
    assert send(url, "DELETE", "/connectors/none").status == 404


def test_a_malformed_allowed_host_stops_the_worker_before_it_starts(settings):
    with pytest.raises(UserError, match=r"http\.allowed\.hosts"):
        RunningWorker({**settings, "http.allowed.hosts": "http://connect.example.com"})
