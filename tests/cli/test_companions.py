"""What runs beside the broker: it dies with it, and comes back by itself."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import httpx2
import psutil
import pytest

from strom.cli.companions import Companion, Companions
from strom.cli.declared_connectors import connectors_of
from strom.model.errors import UserError
from strom.pipelines import Project
from strom.pipelines.settings import ProjectSettings
from strom.supervision.child_process import ChildProcess
from tools.kafka import free_port

PATIENCE_S = 30


def eventually(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(what)


def answers(url):
    try:
        return httpx2.get(f"{url}/subjects").json() == []
    except httpx2.TransportError:
        return False


@contextlib.contextmanager
def broker_with(option, folder):
    """`strom start` with a companion, as a process: it, and where the companion answers."""
    port = free_port()
    command = [sys.executable, "-m", "strom", "start", "--port", "0", "--amqp-port", "0", "--json"]
    command += ["--set", "amqp.management.port=0", "--data", str(folder / "data")]
    process = subprocess.Popen(
        [*command, option, str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(os.environ),
    )
    line = process.stdout.readline()
    assert f'"http://127.0.0.1:{port}"'.encode() in line
    yield process, f"http://127.0.0.1:{port}"
    if process.poll() is None:
        process.kill()
    process.communicate()


@pytest.fixture
def broker_with_registry(tmp_path):
    """With a registry."""
    with broker_with("--registry-port", tmp_path) as found:
        yield found


def registry_of(process):
    return eventually(
        lambda: next(iter(psutil.Process(process.pid).children()), None), "no registry was started"
    )


def test_the_registry_dies_with_its_broker_even_if_that_is_killed(broker_with_registry):
    process, url = broker_with_registry
    eventually(lambda: answers(url), "the registry does not answer")
    child = registry_of(process)
    process.send_signal(signal.SIGKILL)
    child.wait(PATIENCE_S)
    assert not answers(url)


def test_a_registry_that_was_killed_comes_back(broker_with_registry):
    process, url = broker_with_registry
    eventually(lambda: answers(url), "the registry does not answer")
    first = registry_of(process)
    first.kill()
    eventually(lambda: registry_of(process).pid != first.pid, "nothing was started again")
    eventually(lambda: answers(url), "the registry does not answer again")


def test_a_clean_stop_takes_the_registry_along(broker_with_registry):
    process, url = broker_with_registry
    eventually(lambda: answers(url), "the registry does not answer")
    child = registry_of(process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
    assert not child.is_running()


def test_a_worker_ends_while_the_broker_still_answers(tmp_path):
    """It has offsets to commit, and leaves its group."""
    with broker_with("--connect-port", tmp_path) as (process, url):
        (tmp_path / "in").write_text("a\n")
        connector = f"{url}/connectors/lines"
        config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in"), "topic": "t"}

        def asked(method, address, **given):
            try:
                return httpx2.request(method, address, **given).json()
            except (httpx2.TransportError, ValueError):
                return {}

        eventually(
            lambda: asked("PUT", f"{connector}/config", json=config).get("name"), "no worker"
        )
        eventually(
            lambda: (
                [one["state"] for one in asked("GET", f"{connector}/status").get("tasks", [])]
                == ["RUNNING"]
            ),
            "the connector does not run",
        )
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr.read() == b""


def test_companions_import_nothing_from_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "strom.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    child = Companion("x", ("registry", "--help"), "127.0.0.1", 1).child("h:1")
    child.launch()
    assert child.wait(PATIENCE_S) == 0
    child.stop()


class OtherWorker(BaseHTTPRequestHandler):
    """A Connect worker of somebody else."""

    asked: ClassVar[list[str]] = []

    def do_GET(self):
        self.asked.append(f"{self.command} {self.path}")
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"[]")

    do_PUT = do_GET  # noqa: N815

    def log_message(self, *arguments):
        pass


def test_another_worker_at_the_port_is_not_taken_for_the_projects_own(tmp_path, broker, capfd):
    with ThreadingHTTPServer(("127.0.0.1", 0), OtherWorker) as other:
        serving = threading.Thread(target=other.serve_forever)
        serving.start()
        settings = ProjectSettings(
            connect_port=other.server_port, connectors={"lines": {"file": "in"}}
        )
        with (
            pytest.raises(UserError, match=r"^The Connect worker could not be started: ") as failed,
            connectors_of(Project(tmp_path, settings), broker.bootstrap_servers),
        ):
            pass
        other.shutdown()
        serving.join()
    assert OtherWorker.asked == []
    # Once, and with what the user can change: the worker's own options are not theirs.
    assert "under [connect] in strom.toml" in str(failed.value)
    assert "--port" not in str(failed.value)
    assert "cannot listen" not in capfd.readouterr().err


STOPS_WITH_THE_OTHER = """
import pathlib, signal, sys, time
own, other = map(pathlib.Path, sys.argv[1:])
def stop(*_):
    own.touch()
    while not other.exists():
        time.sleep(0.01)
    own.with_suffix(".done").touch()
    sys.exit()
signal.signal(signal.SIGTERM, stop)
print("{}", flush=True)
signal.pause()
"""


def test_they_are_stopped_together(tmp_path, monkeypatch):
    """Each of these ends only when the other was asked to."""
    paths = [str(tmp_path / "first"), str(tmp_path / "second")]

    def child(companion, _servers):
        return ChildProcess(
            companion.name, [sys.executable, "-c", STOPS_WITH_THE_OTHER, *companion.args]
        )

    monkeypatch.setattr(Companion, "child", child)
    running = Companions(
        [Companion("one", tuple(args), "", 0) for args in (paths, reversed(paths))]
    )
    running.start("")
    running.wait_ready(PATIENCE_S)
    running.stop()
    assert sorted(path.name for path in tmp_path.glob("*.done")) == ["first.done", "second.done"]


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8081"),
        ("0.0.0.0", "http://127.0.0.1:8081"),
        ("::1", "http://[::1]:8081"),
    ],
)
def test_the_address_is_one_that_clients_can_use(host, url):
    assert Companion("x", (), host, 8081).url == url
