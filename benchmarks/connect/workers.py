"""Workers of both kinds, each in a process of its own, and their connectors by REST."""

import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from benchmarks.peers import KAFKA_HEAP, KAFKA_JVM_FLAGS
from strom.supervision.child_process import ChildProcess
from tools.kafka_connect import RealConnect

_READY_S = 60
SETTINGS = {"offset.flush.interval.ms": "1000"}
"""The same of both."""


class Worker:
    """A running worker, asked by REST."""

    def __init__(self, url: str) -> None:
        self._url = url

    def add(self, name: str, config: Mapping[str, str]) -> None:
        """Create a connector."""
        deadline = time.monotonic() + _READY_S
        while True:
            try:
                self._ask("PUT", f"/connectors/{name}/config", dict(config))
                return
            except urllib.error.HTTPError as error:
                # 409: the workers are rebalancing.
                if error.code != 409 or time.monotonic() > deadline:
                    raise RuntimeError(error.read().decode()) from error
                time.sleep(0.2)

    def check(self, name: str) -> None:
        """Raise what a task of the connector has failed with."""
        with urllib.request.urlopen(f"{self._url}/connectors/{name}/status", timeout=10) as answer:
            status = json.load(answer)
        for task in status["tasks"]:
            if task["state"] == "FAILED":
                raise RuntimeError(f"{name} failed: {task.get('trace')}")

    def remove(self, name: str) -> None:
        """Delete a connector."""
        self._ask("DELETE", f"/connectors/{name}", None)

    def _ask(self, method: str, path: str, body: Any) -> None:
        request = urllib.request.Request(
            self._url + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=90):
            pass


@contextmanager
def strom_worker(servers: str) -> Iterator[Worker]:
    """A worker of strom's on that broker."""
    command = [sys.executable, "-m", "strom", "connect", "worker", "--bootstrap-server", servers]
    options = [f"--set={name}={value}" for name, value in SETTINGS.items()]
    worker = ChildProcess("the worker", [*command, "--port", "0", "--json", *options])
    with closing(worker):
        yield Worker(json.loads(worker.start())["connect_url"])


@contextmanager
def kafka_worker(servers: str) -> Iterator[Worker]:
    """A worker of Kafka's on that broker, with the flags that Kafka starts it with."""
    connect = RealConnect(servers, config=SETTINGS, heap=KAFKA_HEAP, jvm_flags=KAFKA_JVM_FLAGS)
    with connect:
        yield Worker(connect.url)
