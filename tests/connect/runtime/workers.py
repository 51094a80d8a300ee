"""Workers, in this process or in ones of their own that can be killed; and a client of their REST."""

import json
import os
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

from confluent_kafka import Producer

from strom.connect.runtime.rest.server import RunningWorker
from strom.supervision.child_process import ChildProcess
from strom.supervision.lifeline import LIFELINE

STRING = "org.apache.kafka.connect.storage.StringConverter"
PATIENCE_S = 60


class Rest:
    """One worker's REST interface."""

    def __init__(self, url):
        self.url = url

    def ask(self, method, path, body=None, *, raw=None, kind="application/json"):
        """Status, body and headers of one answer."""
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + path, data, {"Content-Type": kind}, method=method
        )
        try:
            answer = urllib.request.urlopen(request, timeout=PATIENCE_S)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None, dict(answer.headers)

    def put(self, name, **settings):
        texts = {key.replace("__", "."): str(value) for key, value in settings.items()}
        status, body, _ = self.ask("PUT", f"/connectors/{name}/config", texts)
        assert status in (200, 201), body
        return body

    def get(self, path):
        deadline = time.monotonic() + PATIENCE_S
        while True:
            status, body, _ = self.ask("GET", path)
            # Kafka's workers answer nothing while they share out anew.
            if "rebalance" not in str(body) or time.monotonic() > deadline:
                assert status == 200, body
                return body
            time.sleep(0.1)

    def states(self, name):
        """The states of the tasks, by number; empty before there is any."""
        status, body, _ = self.ask("GET", f"/connectors/{name}/status")
        return {task["id"]: task for task in body["tasks"]} if status == 200 else {}

    def wait_for_states(self, name, wanted, tasks=None):
        def there():
            status, body, _ = self.ask("GET", f"/connectors/{name}/status")
            if status != 200:
                return False
            all_of = [body["connector"], *body["tasks"]]
            return all(one["state"] == wanted for one in all_of) and (
                tasks is None or len(body["tasks"]) == tasks
            )

        wait_until(there)


def wait_until(true, patience_s=PATIENCE_S):
    deadline = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


def send(servers, topic, *values):
    producer = Producer({"bootstrap.servers": servers})
    for value in values:
        producer.produce(topic, value)
    producer.flush()


@contextmanager
def embedded_worker(servers, settings):
    """A worker in this process that flushes often, on topics of one partition."""
    usual = {
        "bootstrap.servers": servers,
        "rest.port": "0",
        "offset.flush.interval.ms": "200",
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
        "plugin.packages": "tests.connect.runtime.troubled",
    }
    with RunningWorker({**usual, **settings}) as running:
        yield running


class WorkerProcess:
    """`strom connect worker` on a free port."""

    def __init__(self, servers, **settings):
        self._command = [
            sys.executable,
            "-m",
            "strom",
            "connect",
            "worker",
            "--json",
            "-v",
            LIFELINE,
        ]
        self._command += ["-b", servers, "--port", "0"]
        texts = {
            "key.converter": STRING,
            "value.converter": STRING,
            "session.timeout.ms": "4000",
            "heartbeat.interval.ms": "300",
            "offset.flush.interval.ms": "300",
            "plugin.packages": "tests.connect",
            **settings,
        }
        for name, value in texts.items():
            self._command += ["--set", f"{name}={value}"]
        self.words = tempfile.TemporaryFile("a+b")  # noqa: SIM115 - closed by stop()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def start(self):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.process = ChildProcess("the worker", self._command, stderr=self.words, env=environment)
        self.url = json.loads(self.process.start())["connect_url"]
        self.pid = self.process.pid
        self.id = self.url.removeprefix("http://")
        self.rest = Rest(self.url)
        return self

    def told(self):
        self.words.seek(0)
        return self.words.read().decode(errors="replace")

    def kill(self):
        self.process.kill()

    def terminate(self):
        """End it cleanly; returns its exit code."""
        return self.process.stop()

    def stop(self):
        self.kill()
        self.words.close()
