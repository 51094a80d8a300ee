"""What a sink writes to is away for longer than the group waits for a member that does not poll."""

import threading

import pytest
from confluent_kafka.admin import AdminClient

from strom.connect.api import RetriableError
from strom.testing import LocalBroker
from tests.connect.runtime.troubled import TroubledSinkTask, scenes
from tests.connect.runtime.workers import STRING, Rest, embedded_worker, send, wait_until

HERE = "tests.connect.runtime.troubled"
RETRY_MS = 100
MAX_POLL_MS = 3000
ATTEMPTS = MAX_POLL_MS * 3 // 2 // RETRY_MS
"""So many, with the pauses between them, take longer than MAX_POLL_MS."""


@pytest.fixture(scope="module")
def servers():
    with LocalBroker(settings={"group.min.session.timeout.ms": "1000"}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def rest(servers):
    settings = {"key.converter": STRING, "value.converter": STRING, "session.timeout.ms": "2500"}
    with embedded_worker(servers, settings) as running:
        yield Rest(running.url)


def members(servers, name):
    group = f"connect-{name}"
    admin = AdminClient({"bootstrap.servers": servers})  # held: with it its futures would go
    described = admin.describe_consumer_groups([group])[group].result()
    return [member.member_id for member in described.members]


def test_a_sink_whose_target_stays_away_keeps_its_place_in_the_group_and_goes_on(servers, rest):
    name, scene = "away", scenes["away"]
    scene.trouble = {}
    send(servers, name, "a")
    rest.put(
        name,
        connector__class=f"{HERE}:TroubledSink",
        scene=name,
        topics=name,
        errors__retry__delay__max__ms=RETRY_MS,
        consumer__override__max__poll__interval__ms=MAX_POLL_MS,
    )
    wait_until(lambda: scene.stored == ["a"])
    before = members(servers, name)
    opened = scene.calls["open"]
    # The flush fails, so what was put has to come again; but the target cannot be opened for it.
    scene.trouble = {
        "flush": [RetriableError("away")],
        "open": [RetriableError("away")] * 100_000,
    }
    send(servers, name, "b")
    wait_until(lambda: scene.calls["open"] >= opened + ATTEMPTS)
    send(servers, name, "c")
    assert scene.calls["put"] == 2  # nothing more is read meanwhile
    assert members(servers, name) == before
    scene.trouble = {}
    wait_until(lambda: scene.stored == ["a", "b", "c"])
    assert members(servers, name) == before
    rest.ask("DELETE", f"/connectors/{name}")


def test_what_was_lost_with_the_target_is_read_again_after_a_stop(servers, rest, monkeypatch):
    name, scene = "lost", scenes["lost"]
    flush = TroubledSinkTask.flush
    lost: list[str] = []

    def lose(task):
        if lost or not task.scene.put:
            return flush(task)
        lost.extend(task.scene.put)
        task.scene.put = []
        stop = threading.Thread(target=rest.ask, args=("PUT", f"/connectors/{name}/stop"))
        stop.start()
        assert task.context.stopping.wait(30)
        raise RetriableError("away")

    monkeypatch.setattr(TroubledSinkTask, "flush", lose)
    send(servers, name, "a")
    rest.put(name, connector__class=f"{HERE}:TroubledSink", scene=name, topics=name)
    wait_until(lambda: lost)
    rest.wait_for_states(name, "STOPPED", tasks=0)
    rest.ask("PUT", f"/connectors/{name}/resume")
    wait_until(lambda: scene.stored == ["a"])
    rest.ask("DELETE", f"/connectors/{name}")
