"""What metrics tell of views."""

import time

from strom.metrics.http import HttpStats
from strom.pipelines.freshness import Completeness
from strom.pipelines.measurements import make_view_metrics
from tests.metrics.scraping import Scraped
from tests.pipelines.measured import measured_runner


def scraped(runner) -> Scraped:
    return Scraped(make_view_metrics(runner, HttpStats("serving")).render()[0].decode())


def test_a_view_is_measured(monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 15.0)
    monkeypatch.setattr(time, "time", lambda: 61.0)
    found = scraped(measured_runner())
    expected = {
        "lag_records": 40,
        "freshness_seconds": 15,
        "segments": 2,
        "batch_age_seconds": 60,
        "versions": 2,
        "skipped_records": 1,
        "set_aside": 0,
        "compactions_total": 5,
    }
    assert {name: found.value(f"strom_view_{name}", view="pages") for name in expected} == expected


def test_the_speed_layer_of_a_topic_is_measured():
    found = scraped(measured_runner())
    assert found.value("strom_view_micro_batches_total", topic="clicks") == 3
    assert found.value("strom_view_micro_batch_seconds_total", topic="clicks") == 2
    assert found.value("strom_view_last_micro_batch_seconds", topic="clicks") == 0.5
    assert found.value("strom_view_records_total", topic="clicks") == 60
    assert found.value("strom_view_dead_letters_total", topic="clicks") == 1


def test_a_view_that_is_set_aside_and_threads_that_fail_are_reported():
    runner = measured_runner(set_aside=lambda: {"pages": "why"}, outages={"batch": object()})
    found = scraped(runner)
    assert found.value("strom_view_set_aside", view="pages") == 1
    assert found.value("strom_view_outages") == 1


def test_a_view_without_data_has_no_batch_age():
    runner = measured_runner()
    runner.project.manifests.read = {}.get
    found = scraped(runner)
    assert found.values("strom_view_batch_age_seconds") == []
    assert found.value("strom_view_segments", view="pages") == 0


def test_a_view_is_as_fresh_as_the_last_look_that_it_has_caught_up_with():
    complete = Completeness()
    complete.observe_end(0.0, 100, {"v": 100})
    assert complete.age_s("v", 5.0) == 5.0
    complete.observe_end(10.0, 200, {"v": 150})  # it has 50: no observation is reached
    assert complete.age_s("v", 10.0) == 10.0
    complete.observe_end(20.0, 300, {"v": 180})  # it has 120: complete as of the first observation
    assert complete.age_s("v", 20.0) == 20.0
    complete.observe_end(30.0, 400, {"v": 100})  # it has 300: complete as of 20
    assert complete.age_s("v", 30.0) == 10.0
    complete.observe_end(40.0, 400, {"v": 0})
    assert complete.age_s("v", 40.0) == 0.0


def test_an_idle_topic_keeps_a_view_fresh():
    complete = Completeness()
    for second in range(5):
        complete.observe_end(float(second), 100, {"v": 0})
    assert complete.age_s("v", 4.5) == 0.5


def test_a_recreated_topic_begins_with_new_looks():
    complete = Completeness()
    complete.observe_end(0.0, 1000, {"v": 1000})
    complete.observe_end(10.0, 5, {"v": 5})
    complete.observe_end(20.0, 5, {"v": 0})
    assert complete.age_s("v", 20.0) == 0.0
