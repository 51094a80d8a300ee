"""What Connect's REST refuses: web pages of other sites, and connectors that reach beyond theirs."""

import json
import socket
import sys

import pytest

from strom.connect.runtime.rest.server import RunningWorker
from strom.connect.runtime.state import COMMIT_PREFIX, CONNECTOR_PREFIX, TASK_PREFIX
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
def worker(settings):
    with RunningWorker(settings) as running:
        wait_until(lambda: Rest(running.url).ask("GET", "/health")[0] == 200)
        yield running


@pytest.fixture
def url(worker):
    return worker.url


def test_a_page_cannot_have_a_file_read_into_a_topic(url):
    config = {"connector.class": "FileStreamSource", "file": "/etc/shadow", "topic": "taken"}
    body = json.dumps({"name": "thief", "config": config}).encode()
    check_foreign_pages_are_refused(url, "/connectors", "/connectors", body)
    assert "thief" not in send(url, path="/connectors").body


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


def test_a_file_that_a_sink_has_written_is_not_imported(url, tmp_path, monkeypatch):
    (tmp_path / "planted.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    config = {"connector.class": "planted:Evil"}
    created = Rest(url).ask("POST", "/connectors", {"name": "evil", "config": config})
    assert created[0] == 400
    assert "plugin.packages" in created[1]["message"]
    for path in ("/connector-plugins/planted:Evil/config", "/connector-plugins/planted:Evil"):
        assert Rest(url).ask("GET", path)[0] == 404
    validated = Rest(url).ask("PUT", "/connector-plugins/planted:Evil/config/validate", config)
    assert validated[0] == 404
    assert "planted" not in sys.modules


def connector_state(rest, name):
    status, body, _ = rest.ask("GET", f"/connectors/{name}/status")
    return body["connector"] if status == 200 else {"state": None}


def test_stored_connectors_that_are_no_longer_allowed_fail_alone(worker, tmp_path):
    """An older version has stored them; the topics are open to other writers, too."""
    (tmp_path / "in.txt").write_text("a\n")
    file = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": "t"}
    stored = {
        "foreign": {"connector.class": "planted:Evil", "name": "foreign"},
        "loader": {**file, "name": "loader", "producer.override.plugin.library.paths": "/evil.so"},
    }
    stores, rest = worker.worker.stores, Rest(worker.url)
    for name, config in stored.items():
        stores.write_config(
            [
                (f"{CONNECTOR_PREFIX}{name}", {"properties": config}),
                (f"{TASK_PREFIX}{name}-0", {"properties": config}),
                (f"{COMMIT_PREFIX}{name}", {"tasks": 1}),
            ]
        )
    rest.put("good", **{key.replace(".", "__"): text for key, text in file.items()})
    rest.wait_for_states("good", "RUNNING", tasks=1)
    for name, words in (("foreign", "plugin.packages"), ("loader", "plugin.library.paths")):
        wait_until(lambda one=name: connector_state(rest, one)["state"] == "FAILED")
        assert words in connector_state(rest, name)["trace"]
    shown = rest.get("/connectors?expand=info&expand=status")
    assert {name: shown[name]["info"]["type"] for name in shown} == {
        "foreign": "unknown",
        "loader": "source",
        "good": "source",
    }
    for name in (*stored, "good"):
        assert rest.ask("DELETE", f"/connectors/{name}")[0] == 204


def test_a_worker_on_an_ipv6_address_is_reached_by_the_url_that_it_names(settings):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"no IPv6 on this machine: {error}")
    named = {name: text for name, text in settings.items() if name != "rest.advertised.host.name"}
    with RunningWorker({**named, "rest.host": "::1"}) as running:
        assert running.url == f"http://[::1]:{running.port}"
        assert send(running.url, path="/connectors").status == 200
        assert send(running.url, path="/connectors", Host=f"[::2]:{running.port}").status == 403


def test_a_malformed_allowed_host_stops_the_worker_before_it_starts(settings):
    with pytest.raises(UserError, match=r"http\.allowed\.hosts"):
        RunningWorker({**settings, "http.allowed.hosts": "http://connect.example.com"})
