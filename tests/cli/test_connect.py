"""`strom connect`, and connectors declared in strom.toml, against a running worker."""

import json
import os
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from strom.cli.connect_worker import _forbid_imports_from_working_directory, _known
from strom.cli.declared_connectors import _worker_of, reconcile
from strom.cli.program import program
from strom.cli.rest import ConnectRest
from strom.connect.runtime.rest.server import RunningWorker
from strom.model.errors import UserError
from strom.pipelines.project import Project
from strom.pipelines.settings import read_settings


@pytest.fixture(scope="module")
def worker(strom_server):
    settings = {
        "bootstrap.servers": strom_server.bootstrap_servers,
        "rest.port": "0",
        "group.id": "cli-tests",
        "config.storage.topic": "cli-tests-configs",
        "offset.storage.topic": "cli-tests-offsets",
        "status.storage.topic": "cli-tests-status",
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
        "key.converter": "String",
        "value.converter": "String",
        "offset.flush.interval.ms": "300",
    }
    with RunningWorker(settings) as running:
        yield running


@pytest.fixture
def run(worker):
    def call(*arguments, code=0):
        result = CliRunner().invoke(program, ["connect", *map(str, arguments), "--url", worker.url])
        assert result.exit_code == code, result.output
        return result.output

    return call


def settled(run, name, state):
    deadline = time.monotonic() + 30
    while True:
        result = run("list", "--json")
        status = json.loads(result).get(name, {}).get("status")
        tasks = 0 if state == "STOPPED" else 1
        if status and len(status["tasks"]) == tasks:
            states = {one["state"] for one in (status["connector"], *status["tasks"])}
            if states == {state}:
                return
        assert time.monotonic() < deadline, result
        time.sleep(0.05)


def test_a_connector_from_its_file_to_its_removal(run, tmp_path):
    (tmp_path / "in.txt").write_text("a\n")
    file = tmp_path / "lines.json"
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt")}
    file.write_text(json.dumps({"name": "cli-lines", "config": {**config, "topic": "cli-lines"}}))
    assert "cli-lines is valid." in run("validate", file)
    assert run("add", file) == "Added connector cli-lines.\n"
    settled(run, "cli-lines", "RUNNING")
    assert run("add", file, "batch.size=10") == "Changed connector cli-lines.\n"
    assert "batch.size" in run("show", "cli-lines")
    assert "FileStreamSource" in run("list")
    settled(run, "cli-lines", "RUNNING")
    assert "task 0" in run("status", "cli-lines")
    assert run("pause", "cli-lines") == "Paused connector cli-lines.\n"
    settled(run, "cli-lines", "PAUSED")
    assert run("resume", "cli-lines") == "Resumed connector cli-lines.\n"
    settled(run, "cli-lines", "RUNNING")
    assert run("restart", "cli-lines") == "Restarted connector cli-lines.\n"
    settled(run, "cli-lines", "RUNNING")
    assert run("stop", "cli-lines") == "Stopped connector cli-lines.\n"
    settled(run, "cli-lines", "STOPPED")
    assert "filename" in run("offsets", "cli-lines")
    run("logs", "cli-lines")
    assert run("remove", "cli-lines") == "Removed connector cli-lines.\n"


def test_a_wrong_setting_is_reported_in_one_line_with_the_nearest_right_one(worker, tmp_path):
    rest = ConnectRest(worker.url)
    config = {"connector.class": "FileStreamSource", "fil": "x", "topic": "t"}
    with pytest.raises(UserError) as refused:
        rest.call("PUT", "connectors", "wrong", "config", given=config)
    assert "Unknown setting fil. Did you mean file?" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_validation_fails_with_exit_code_1(run):
    told = run("validate", "x", "connector.class=FileStreamSource", "topic=t", code=1)
    assert "file" in told


def test_plugins_are_listed_and_described(run):
    assert "FileStreamSinkConnector" in run("plugins")
    assert "batch.size" in run("plugins", "FileStreamSource")


def test_an_address_without_a_server_is_reported_with_what_to_do():
    with pytest.raises(UserError, match="strom connect worker"):
        ConnectRest("http://127.0.0.1:9").call("GET", "connectors")


PROJECT = """
name = "shop"
[connectors.declared-in]
connector.class = "FileStreamSource"
file = "{file}"
topic = "declared"
tasks.max = 1
[connectors.declared-out]
connector.class = "FileStreamSink"
file = "{file}.out"
topics = ["declared"]
errors.tolerance = "all"
"""


def test_a_project_brings_its_connectors_to_the_declared_state(worker, run, tmp_path):
    file = tmp_path / "strom.toml"
    (tmp_path / "in.txt").write_text("a\n")
    file.write_text(PROJECT.format(file=tmp_path / "in.txt"))
    declared = read_settings(file).connectors
    rest = ConnectRest(worker.url)
    run("add", "by-hand", "connector.class=FileStreamSource", "file=x", "topic=t")
    reconcile("shop", declared, rest)
    settled(run, "declared-in", "RUNNING")
    settled(run, "declared-out", "RUNNING")
    assert rest.call("GET", "connectors", "declared-out", "config")["topics"] == "declared"
    changed = {"declared-in": {**declared["declared-in"], "batch.size": "7"}}
    reconcile("shop", changed, rest)
    assert sorted(rest.call("GET", "connectors")) == ["by-hand", "declared-in"]
    assert rest.call("GET", "connectors", "declared-in", "config")["batch.size"] == "7"
    with pytest.raises(UserError, match=r"Connector broken: .*file"):
        reconcile("shop", {"broken": {"connector.class": "FileStreamSource"}}, rest)
    reconcile("shop", {}, rest)
    run("remove", "by-hand")
    with urllib.request.urlopen(f"{worker.url}/connectors") as answer:
        assert json.loads(answer.read()) == []


def test_a_project_says_what_its_worker_may_import_and_which_hosts_it_has(tmp_path):
    file = tmp_path / "strom.toml"
    file.write_text(
        '[connect]\nplugin_packages = ["a.b", "c"]\n[http]\nallowed_hosts = ["x.example", "y"]\n'
    )
    arguments = _worker_of(Project(tmp_path, read_settings(file))).args
    assert "plugin.packages=a.b,c" in arguments
    assert "http.allowed.hosts=x.example,y" in arguments
    file.write_text("")
    arguments = _worker_of(Project(tmp_path, read_settings(file))).args
    assert not any("plugin" in one or "hosts" in one for one in arguments)
    file.write_text('[http]\nallowed_hosts = "x.example"\n')
    with pytest.raises(UserError, match=r"http\.allowed_hosts must be an array of strings"):
        read_settings(file)


def test_a_file_of_kafkas_worker_may_name_packages():
    properties = {
        "plugin.path": "/usr/share/java",
        "plugin.packages": "a.b",
        "listeners": "http://:1",
    }
    assert _known(properties) == {"plugin.packages": "a.b"}


@pytest.mark.parametrize("first", ["", "here"])
def test_a_worker_imports_nothing_from_the_working_directory(first, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    others = [str(Path("/somewhere")), os.getcwd()]  # the latter by PYTHONPATH, on purpose
    monkeypatch.setattr(sys, "path", [first and os.getcwd(), *others])
    _forbid_imports_from_working_directory()
    assert sys.path == others
    monkeypatch.setattr(sys, "path", ["/opt/strom/bin", *others])
    _forbid_imports_from_working_directory()
    assert sys.path == ["/opt/strom/bin", *others]
