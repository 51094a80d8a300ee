"""What a worker reports of its connectors and tasks, as Prometheus sees it."""

from types import SimpleNamespace
from typing import Any

import pytest

from strom.connect.runtime.assignment import Unit
from strom.connect.runtime.measurements import make_worker_metrics
from strom.connect.runtime.settings import WorkerSettings
from strom.metrics.connect import TaskStats
from strom.metrics.http import HttpStats
from strom.testing import LocalBroker
from tests.connect.runtime.workers import STRING, Rest, embedded_worker, wait_until
from tests.metrics.scraping import scrape


@pytest.fixture(scope="module")
def worker():
    with (
        LocalBroker() as broker,
        embedded_worker(
            broker.bootstrap_servers,
            {"value.converter": STRING, "offset.flush.interval.ms": "100"},
        ) as running,
    ):
        yield running


def test_records_are_counted_from_a_source_to_a_sink(worker, tmp_path):
    source, sink = tmp_path / "in", tmp_path / "out"
    source.write_text("".join(f"{number}\n" for number in range(5)))
    rest, url = Rest(worker.url), f"{worker.url}/metrics"
    before = scrape(url).value("strom_connect_tasks")  # other tests start connectors too
    rest.put("reads", connector__class="FileStreamSource", file=source, topic="lines")
    rest.put("writes", connector__class="FileStreamSink", file=sink, topics="lines")
    wait_until(lambda: sink.exists() and len(sink.read_text().splitlines()) == 5)
    wait_until(
        lambda: scrape(url).values("strom_connect_sink_lag_records", connector="writes") == [0]
    )
    found = scrape(url)
    for connector in ("reads", "writes"):
        task = {"connector": connector, "task": "0"}
        assert found.value("strom_connect_task_records_total", **task) == 5
        assert found.value("strom_connect_task_batches_total", **task) >= 1
        assert found.value("strom_connect_task_batch_seconds_total", **task) > 0
        assert found.value("strom_connect_task_errors_total", **task) == 0
        assert found.value("strom_connect_task_state", state="RUNNING", **task) == 1
    assert found.values("strom_connect_sink_lag_records", connector="reads") == []
    assert found.value("strom_connect_holds_lease") == 1
    assert found.value("strom_connect_tasks") == before + 4


def test_bad_records_and_failures_are_counted(worker, tmp_path):
    source = tmp_path / "in"
    source.write_text('{"x": 1}\nno JSON\n')
    rest, url = Rest(worker.url), f"{worker.url}/metrics"
    rest.put(
        "mends",
        connector__class="FileStreamSource",
        file=source,
        topic="numbers",
        format="json",
        errors__tolerance="all",
    )
    wait_until(
        lambda: 1 in scrape(url).values("strom_connect_task_errors_total", connector="mends")
    )
    rest.put(
        "fails",
        connector__class="FileStreamSource",
        file=source,
        topic="numbers",
        format="json",
        restart__backoff__ms="0",
    )
    wait_until(
        lambda: scrape(url).values("strom_connect_task_state", connector="fails", state="FAILED")
    )
    task = {"connector": "fails", "task": "0"}
    assert scrape(url).value("strom_connect_task_failures_total", **task) == 1


def test_the_cap_on_series_is_a_setting_of_the_worker():
    runners = [
        SimpleNamespace(unit=Unit(name, 0), state="RUNNING", stats=TaskStats()) for name in "abc"
    ]
    worker: Any = SimpleNamespace(
        settings=WorkerSettings.read({"metrics.max.label.values": "1"}),
        herder=SimpleNamespace(runners=lambda: runners),
        membership=SimpleNamespace(holds_lease=lambda: True),
    )
    text = make_worker_metrics(worker, HttpStats("connect")).render()[0].decode()
    states = [line for line in text.splitlines() if line.startswith("strom_connect_task_state{")]
    assert len(states) == 2
    assert [line.rpartition(" ")[2] for line in states if 'connector="_other"' in line] == ["2.0"]
