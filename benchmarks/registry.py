"""How soon the schema registry answers: python -m benchmarks.registry [--quick].

Look-ups come at a steady rate, over kept connections, whether earlier ones are answered or not: a time is
counted from the moment that a request was due, so that waiting behind a slow one counts. Broker, registry
and the asking side share this machine.
"""

import argparse
import contextlib
import http.client
import json
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from benchmarks import machine
from strom.registry.client import CONTENT_TYPE, RegistryClient
from strom.supervision.child_process import ChildProcess
from strom.testing import BrokerProcess

SCHEMAS = 200
CONNECTIONS = 10
GOAL_MS = 5.0
Request = tuple[str, str, str | None]
"""Method, path and body."""


@dataclass(frozen=True)
class Times:
    """What a case took, in milliseconds."""

    case: str
    rate: float
    milliseconds: list[float]

    def percentile(self, share: float) -> float:
        """The time that a share of the requests stayed under."""
        last = len(self.milliseconds) - 1
        return sorted(self.milliseconds)[min(last, int(share * (last + 1)))]


def main() -> int:
    """Measure and print; exit code 1 if the goal was missed."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="a few seconds only")
    arguments.add_argument("--rate", type=int, default=500, help="requests per second")
    given = arguments.parse_args()
    seconds = 4 if given.quick else 30
    for name, text in machine.describe().items():
        print(f"{name:<12}{text}")
    with BrokerProcess() as broker, registry_at(broker.bootstrap_servers) as url:
        ids, took = fill(url)
        cases = [
            steady(url, "by id", given.rate, seconds, lambda: by_id(random.choice(ids))),
            steady(url, "latest version of a subject", given.rate, seconds, latest),
            steady(url, "by content", given.rate, seconds, by_content),
        ]
        alone = one_by_one(url, 100 if given.quick else 300)
    print(f"\n{'':<34}{'requests/s':>12}{'p50 ms':>10}{'p95 ms':>10}{'p99 ms':>10}{'max ms':>10}")
    for case in (*cases, alone):
        figures = [case.percentile(share) for share in (0.5, 0.95, 0.99, 1)]
        print(f"{case.case:<34}{case.rate:>12.0f}" + "".join(f"{one:>10.2f}" for one in figures))
    print(f"\n{SCHEMAS} schemas were registered in {took:.1f} s ({SCHEMAS / took:.0f}/s).")
    reached = cases[0].percentile(0.95) < GOAL_MS
    print(f"Goal: 95 % of look-ups under {GOAL_MS:.0f} ms: {'reached' if reached else 'MISSED'}.")
    return 0 if reached else 1


@contextlib.contextmanager
def registry_at(servers: str) -> Iterator[str]:
    """A registry in a process of its own; its address."""
    command = [sys.executable, "-m", "strom", "registry", "-b", servers, "--port", "0", "--json"]
    with contextlib.closing(ChildProcess("the registry", command)) as registry:
        yield json.loads(registry.start())["registry_url"]


def schema(number: int) -> str:
    """A schema of the usual size."""
    fields = [
        {"name": f"field_{number}_{one}", "type": ["null", "string"], "default": None}
        for one in range(20)
    ]
    return json.dumps({"type": "record", "name": f"Record{number}", "fields": fields})


def fill(url: str) -> tuple[list[int], float]:
    """Register schemas; their ids, and how long it took."""
    began = time.monotonic()
    with RegistryClient(url) as client:
        ids = [client.register(f"subject-{number}", schema(number)) for number in range(SCHEMAS)]
    return ids, time.monotonic() - began


def by_id(schema_id: int) -> Request:
    """What consumers ask."""
    return "GET", f"/schemas/ids/{schema_id}", None


def latest() -> Request:
    """What producers with `use.latest.version` ask."""
    return "GET", f"/subjects/subject-{random.randrange(SCHEMAS)}/versions/latest", None


def by_content() -> Request:
    """What producers without `auto.register.schemas` ask."""
    number = random.randrange(SCHEMAS)
    return "POST", f"/subjects/subject-{number}", json.dumps({"schema": schema(number)})


def steady(url: str, case: str, rate: int, seconds: float, request: Callable[[], Request]) -> Times:
    """Ask at a steady rate over several connections."""
    times: list[float] = []
    began = time.monotonic() + 0.2
    each = int(rate * seconds / CONNECTIONS)

    def ask(number: int) -> None:
        with contextlib.closing(connection(url)) as asking:
            for turn in range(each):
                due = began + (turn * CONNECTIONS + number) / rate
                time.sleep(max(0.0, due - time.monotonic()))
                send(asking, request())
                times.append((time.monotonic() - due) * 1000)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Times(case, len(times) / (time.monotonic() - began), times)


def one_by_one(url: str, count: int) -> Times:
    """Register new schemas one after the other: each is durable before the response."""
    times = []
    with contextlib.closing(connection(url)) as asking:
        for number in range(count):
            began = time.monotonic()
            body = json.dumps({"schema": schema(1_000_000 + number)})
            send(asking, ("POST", f"/subjects/new-{number}/versions", body))
            times.append((time.monotonic() - began) * 1000)
    return Times("registering, one after the other", 1000 / statistics.mean(times), times)


def connection(url: str) -> http.client.HTTPConnection:
    """A connection that is kept."""
    return http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)


def send(asking: http.client.HTTPConnection, request: Request) -> None:
    """Ask, and take the answer."""
    method, path, body = request
    asking.request(method, path, body, {"Content-Type": CONTENT_TYPE})
    answer = asking.getresponse()
    answer.read()
    assert answer.status == 200, answer.status


if __name__ == "__main__":
    sys.exit(main())
