"""Transactions of sources: their timeout covers the interval between commits, or is refused."""

import itertools

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from strom.connect.api import RetriableError
from strom.connect.runtime import transaction_timeouts
from strom.connect.runtime.clients import Clients
from strom.connect.runtime.secrets import Secrets
from strom.connect.runtime.settings import WorkerSettings
from strom.connect.runtime.validation import Checker
from strom.testing import LocalBroker
from tests.connect.runtime.troubled import scenes
from tests.connect.runtime.workers import STRING, Rest, embedded_worker, wait_until

HERE = "tests.connect.runtime.troubled"
SOURCE = {"name": "c", "connector.class": "FileStreamSource", "file": "/tmp/in.txt", "topic": "t"}
OVERRIDE = "producer.override.transaction.timeout.ms"
INTERVAL = "transaction.boundary.interval.ms"
LIMIT_MS = 900_000
_numbers = itertools.count(1)


def problems(config, *, flush_ms=10_000, producer=None, limit=LIMIT_MS):
    worker = WorkerSettings(flush_interval_ms=flush_ms)
    checker = Checker(worker, {}, Secrets(), producer or {}, lambda: limit)
    return checker.problems({**SOURCE, **config})


def by_interval(ms=None):
    own = {} if ms is None else {INTERVAL: str(ms)}
    return {"transaction.boundary": "interval", **own}


@pytest.mark.parametrize(
    "config",
    [
        {},
        by_interval(),
        by_interval(600_000),
        by_interval(LIMIT_MS - transaction_timeouts.COMMIT_MS),
        {**by_interval(60_000), OVERRIDE: "60001"},
        {OVERRIDE: "1000"},
        {"transaction.boundary": "poll", INTERVAL: "10000000", OVERRIDE: "5000"},
    ],
)
def test_what_can_be_committed_in_time_passes(config):
    assert problems(config) == {}


def test_an_interval_that_the_broker_does_not_allow_is_refused():
    found = problems(by_interval(LIMIT_MS - transaction_timeouts.COMMIT_MS + 1))
    assert list(found) == [INTERVAL]
    assert "transaction.max.timeout.ms" in found[INTERVAL][0]
    assert str(LIMIT_MS) in found[INTERVAL][0]
    found = problems(by_interval(), flush_ms=LIMIT_MS)
    assert "offset.flush.interval.ms=900000" in found[INTERVAL][0]


def test_a_timeout_that_the_broker_does_not_allow_is_refused():
    assert "exceeds the limit of 900000 ms" in problems({OVERRIDE: "900001"})[OVERRIDE][0]


@pytest.mark.parametrize("timeout", ["1000", "59999", "60000"])
def test_a_timeout_that_does_not_exceed_the_interval_is_refused(timeout):
    found = problems({**by_interval(60_000), OVERRIDE: timeout})
    assert list(found) == [OVERRIDE]
    assert f"{INTERVAL}=60000" in found[OVERRIDE][0]


def test_so_is_one_of_the_workers_own_settings():
    found = problems(by_interval(60_000), producer={"transaction.timeout.ms": "30000"})
    assert "producer.transaction.timeout.ms=30000" in found[OVERRIDE][0]


def test_without_the_brokers_limit_only_what_no_client_takes_is_refused():
    assert problems(by_interval(3_600_000), limit=None) == {}
    assert list(problems(by_interval(2**31), limit=None)) == [INTERVAL]


@pytest.fixture(scope="module")
def servers():
    settings = {
        "transaction.max.timeout.ms": "300000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    }
    with LocalBroker(settings=settings) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def rest(servers):
    # The default: commits come from the interval of the connector, not from frequent flushes.
    settings = {
        "key.converter": STRING,
        "value.converter": STRING,
        "offset.flush.interval.ms": "10000",
    }
    with embedded_worker(servers, settings) as running:
        yield Rest(running.url)


@pytest.fixture
def name():
    return f"timeout{next(_numbers)}"


@pytest.fixture
def scene(rest, name):
    yield scenes[name]
    rest.ask("DELETE", f"/connectors/{name}")


def put(rest, name, kind="TroubledSource", **settings):
    rest.put(name, connector__class=f"{HERE}:{kind}", scene=name, topic=name, **settings)


def test_the_limit_is_read_from_the_broker(rest, name):
    config = {"connector.class": f"{HERE}:TroubledSource", "scene": name, **by_interval(270_000)}
    status, body, _ = rest.ask("PUT", f"/connectors/{name}/config", config)
    assert status == 400
    assert "exceeds the limit of 300000 ms" in body["message"]


def test_the_timeout_follows_the_interval(rest, name, scene, monkeypatch):
    given = []
    made = Clients.producer

    def producer(self, settings=None, on_failure=None):
        given.append(dict(settings or {}))
        return made(self, settings, on_failure)

    monkeypatch.setattr(Clients, "producer", producer)
    put(rest, name, transaction__boundary="interval", transaction__boundary__interval__ms=120_000)
    rest.wait_for_states(name, "RUNNING", tasks=1)
    assert [one["transaction.timeout.ms"] for one in given] == [180_000]


def test_a_timeout_that_the_broker_refuses_fails_the_task_with_the_reason(
    rest, name, scene, monkeypatch
):
    monkeypatch.setattr(transaction_timeouts, "COMMIT_MS", 0)  # passes what is validated
    put(rest, name, transaction__boundary="interval", transaction__boundary__interval__ms=290_000)
    rest.wait_for_states(name, "RUNNING", tasks=1)
    monkeypatch.setattr(transaction_timeouts, "COMMIT_MS", 60_000)
    rest.ask("POST", f"/connectors/{name}/restart?includeTasks=true")
    wait_until(lambda: rest.states(name).get(0, {}).get("state") == "FAILED")
    assert "transaction.max.timeout.ms" in rest.states(name)[0]["trace"]


@pytest.mark.parametrize("boundary", ["interval", "poll"])
def test_what_was_read_is_committed_before_a_source_that_is_away_is_waited_for(
    rest, name, scene, boundary
):
    scene.items = ["a", "b"]
    scene.trouble = {"poll": [None, *[RetriableError("away")] * 1000]}
    put(
        rest,
        name,
        transaction__boundary=boundary,
        transaction__boundary__interval__ms=200_000,
        errors__retry__delay__max__ms=20,
    )
    wait_until(lambda: scene.delivered == [({"p": 0}, {"at": 2})])
    assert scene.trouble["poll"]  # it still is away
    scene.trouble["poll"].clear()
    scene.items += ["c"]
    wait_until(lambda: scene.delivered[-1] == ({"p": 0}, {"at": 3}))
    assert scene.calls["start"] == 1


def test_a_commit_after_the_timeout_fails_with_what_to_raise_and_is_read_again(
    rest, servers, name, scene
):
    scene.items = ["a"]
    put(
        rest,
        name,
        "BoundarySource",
        transaction__boundary="connector",
        producer__override__transaction__timeout__ms=1000,
        restart__backoff__ms=0,
    )
    consumer = Consumer({"bootstrap.servers": servers, "group.id": name})
    place = TopicPartition(name, 0)

    def is_aborted():  # the record, and the marker that the broker has written after it
        try:
            return consumer.get_watermark_offsets(place, timeout=10)[1] == 2
        except KafkaException:  # there is no topic before the first record
            return False

    wait_until(is_aborted)
    consumer.close()
    scene.ends = True
    wait_until(lambda: rest.states(name).get(0, {}).get("state") == "FAILED")
    assert "Raise producer.override.transaction.timeout.ms" in rest.states(name)[0]["trace"]
    assert scene.delivered == []
    rest.ask("POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true")
    wait_until(lambda: scene.delivered == [({"p": 0}, {"at": 1})])
