"""What happens when something goes wrong: retries, restarts, bad records, dead letters, secrets."""

import itertools
import json
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from strom.connect.api import ConnectError, PoisonRecord, RetriableError
from strom.testing import LocalBroker
from tests.connect.runtime.troubled import scenes
from tests.connect.runtime.workers import STRING, Rest, embedded_worker, send, wait_until

HERE = "tests.connect.runtime.troubled"
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def servers():
    with LocalBroker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def worker(servers):
    settings = {"key.converter": STRING, "value.converter": STRING}
    with embedded_worker(servers, settings) as running:
        yield running


@pytest.fixture
def rest(worker):
    return Rest(worker.url)


@pytest.fixture
def name():
    return f"scene{next(_numbers)}"


@pytest.fixture
def scene(rest, name):
    yield scenes[name]
    rest.ask("DELETE", f"/connectors/{name}")


def put(rest, name, kind="TroubledSource", **settings):
    rest.put(name, connector__class=f"{HERE}:{kind}", scene=name, **settings)


def received(servers, topic, count):
    """Values and headers of committed records; waits for so many, and for no more to come."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"judge{next(_numbers)}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    found = []

    def enough():
        found.extend(consumer.consume(100, 0.2))
        return len(good(found)) >= count

    wait_until(enough)
    found += consumer.consume(100, 0.3)
    consumer.close()
    return [(message.value(), dict(message.headers() or ())) for message in good(found)]


def good(messages):
    return [message for message in messages if message.error() is None]


def values(servers, topic, count):
    return [value.decode() for value, _ in received(servers, topic, count)]


@pytest.mark.parametrize("kind", ["TroubledSource", "AtLeastOnceSource"])
def test_a_source_that_is_away_is_asked_again_and_nothing_is_lost(rest, servers, name, scene, kind):
    scene.items = [f"item {number}" for number in range(25)]
    scene.trouble = {
        "start": [RetriableError("away")],
        "poll": [RetriableError("away"), RetriableError("still away")],
    }
    put(rest, name, kind, topic=name)
    assert values(servers, name, 25) == scene.items
    wait_until(lambda: scene.delivered and scene.delivered[-1][1] == {"at": 25})
    rest.wait_for_states(name, "RUNNING", tasks=1)


@pytest.mark.parametrize("kind", ["TroubledSource", "AtLeastOnceSource"])
def test_a_source_task_that_fails_is_started_again_behind_what_it_delivered(
    rest, servers, name, scene, kind
):
    scene.items = [f"item {number}" for number in range(25)]
    scene.trouble = {"poll": []}
    put(rest, name, kind, topic=name, restart__backoff__ms=10)
    assert len(values(servers, name, 25)) == 25
    wait_until(lambda: scene.delivered and scene.delivered[-1][1] == {"at": 25})
    scene.trouble["poll"] += [ConnectError("broken"), ZeroDivisionError("a bug")]
    scene.items += ["late"]
    assert values(servers, name, 26) == scene.items
    assert scene.calls["start"] == 3
    rest.wait_for_states(name, "RUNNING", tasks=1)


def test_a_failed_task_says_why_and_stays_failed_where_restarts_are_off(rest, name, scene):
    scene.trouble = {"poll": [ConnectError("The cable is cut.")]}
    put(rest, name, restart__backoff__ms=0)
    wait_until(lambda: rest.states(name).get(0, {}).get("state") == "FAILED")
    assert rest.states(name)[0]["trace"] == "ConnectError: The cable is cut."
    assert any(
        "The cable is cut." in line for line in rest.get(f"/connectors/{name}/logs")["lines"]
    )
    rest.ask("POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true")
    rest.wait_for_states(name, "RUNNING", tasks=1)


def test_a_paused_source_is_not_asked(rest, servers, name, scene):
    scene.items = ["one"]
    put(rest, name, topic=name)
    assert values(servers, name, 1) == ["one"]
    rest.ask("PUT", f"/connectors/{name}/pause")
    rest.wait_for_states(name, "PAUSED", tasks=1)
    polls = scene.calls["poll"]
    scene.items += ["two"]
    assert values(servers, name, 1) == ["one"]
    assert scene.calls["poll"] == polls
    rest.ask("PUT", f"/connectors/{name}/resume")
    assert values(servers, name, 2) == ["one", "two"]


def test_a_sink_that_is_away_gets_the_same_again(rest, servers, name, scene):
    send(servers, name, *"abc")
    scene.trouble = {"put": [RetriableError("away"), RetriableError("still away")]}
    put(rest, name, "TroubledSink", topics=name)
    wait_until(lambda: scene.stored == ["a", "b", "c"])


@pytest.mark.parametrize("keeps", [True, False])
def test_a_flush_that_fails_brings_everything_since_the_last_one_again(
    rest, servers, name, scene, keeps
):
    scene.keeps_positions = keeps
    put(rest, name, "TroubledSink", topics=name)
    send(servers, name, "a", "b")
    wait_until(lambda: scene.stored == ["a", "b"])
    scene.trouble = {"flush": [RetriableError("away"), RetriableError("away")]}
    send(servers, name, "c", "d")
    wait_until(lambda: scene.stored == ["a", "b", "c", "d"])
    assert scene.calls["open"] >= 3


def test_a_sinks_own_positions_win_over_the_groups(rest, servers, name, scene):
    send(servers, name, *"abcdef")
    scene.keeps_positions = True
    scene.positions = {(name, 0): 4}
    put(rest, name, "TroubledSink", topics=name)
    wait_until(lambda: scene.stored == ["e", "f"])
    rest.ask("PUT", f"/connectors/{name}/stop")
    rest.wait_for_states(name, "STOPPED", tasks=0)
    scene.positions = {(name, 0): 2}
    rest.ask("PUT", f"/connectors/{name}/resume")
    wait_until(lambda: scene.stored == ["e", "f", "c", "d", "e", "f"])


def test_a_sink_task_that_fails_goes_on_with_what_was_not_flushed(rest, servers, name, scene):
    send(servers, name, *"abc")
    scene.trouble = {"put": [ZeroDivisionError("a bug")], "flush": [ConnectError("broken")]}
    put(rest, name, "TroubledSink", topics=name, restart__backoff__ms=10)
    wait_until(lambda: scene.stored == ["a", "b", "c"])


def test_a_record_that_a_sink_refuses_becomes_a_dead_letter_with_its_reasons(
    rest, servers, name, scene
):
    send(servers, name, "good", "bad", "also good")
    scene.trouble = {"put": [PoisonRecord("It is bad.", 1)]}
    put(
        rest,
        name,
        "TroubledSink",
        topics=name,
        errors__tolerance="all",
        errors__deadletterqueue__topic__name=f"{name}-dead",
    )
    wait_until(lambda: scene.stored == ["good", "also good"])
    [(value, headers)] = received(servers, f"{name}-dead", 1)
    assert value == b"bad"
    told = {key.removeprefix("__connect.errors."): text.decode() for key, text in headers.items()}
    assert told.pop("exception.stacktrace").strip().endswith("PoisonRecord: It is bad.")
    assert told == {
        "topic": name,
        "partition": "0",
        "offset": "1",
        "connector.name": name,
        "task.id": "0",
        "stage": "TASK_PUT",
        "class.name": "TroubledSinkTask",
        "exception.class.name": "PoisonRecord",
        "exception.message": "It is bad.",
    }


def test_a_record_that_cannot_be_converted_is_skipped_and_its_place_committed(
    rest, servers, name, scene
):
    send(servers, name, '{"x": 1}', "no JSON", '{"x": 2}')
    put(
        rest,
        name,
        "TroubledSink",
        topics=name,
        value__converter="JSON",
        value__converter__schemas__enable="false",
        errors__tolerance="all",
        errors__log__enable="true",
        errors__deadletterqueue__topic__name=f"{name}-dead",
    )
    wait_until(lambda: scene.stored == [{"x": 1}, {"x": 2}])
    [(value, headers)] = received(servers, f"{name}-dead", 1)
    assert value == b"no JSON"
    assert headers["__connect.errors.stage"] == b"VALUE_CONVERTER"
    offset = {"kafka_offset": 3}
    path = f"/connectors/{name}/offsets"
    wait_until(lambda: [one["offset"] for one in rest.get(path)["offsets"]] == [offset])
    assert any("VALUE_CONVERTER" in line for line in rest.get(f"/connectors/{name}/logs")["lines"])


def test_without_tolerance_a_bad_record_fails_the_task_and_says_where_it_is(
    rest, servers, name, scene
):
    send(servers, name, '{"x": 1}', "no JSON")
    converter = {"value__converter": "JSON", "value__converter__schemas__enable": "false"}
    put(rest, name, "TroubledSink", topics=name, restart__backoff__ms=0, **converter)
    wait_until(lambda: rest.states(name).get(0, {}).get("state") == "FAILED")
    trace = rest.states(name)[0]["trace"]
    assert f"value converter, topic {name}, partition 0, offset 1" in trace
    assert "errors.tolerance=all" in trace
    put(rest, name, "TroubledSink", topics=name, errors__tolerance="all", **converter)
    wait_until(lambda: scene.stored == [{"x": 1}])


def test_transforms_change_and_drop_records_and_offsets_go_on(rest, servers, name, scene):
    scene.items = ["a", "b", "c"]
    put(
        rest,
        name,
        topic=f"{name}-in",
        transforms="route",
        transforms__route__type="RegexRouter",
        transforms__route__regex="(.*)-in",
        transforms__route__replacement="$1-out",
    )
    assert values(servers, f"{name}-out", 3) == ["a", "b", "c"]
    assert rest.get(f"/connectors/{name}/topics") == {name: {"topics": [f"{name}-out"]}}
    wait_until(lambda: rest.get(f"/connectors/{name}/offsets")["offsets"])


@pytest.mark.parametrize("kind", ["TroubledSource", "AtLeastOnceSource"])
def test_offsets_without_records_are_stored_and_reported(rest, name, scene, kind):
    put(rest, name, kind, topic=name)
    scene.idle = [({"p": 0}, {"at": 0, "idle": 1})]
    wait_until(lambda: scene.delivered == [({"p": 0}, {"at": 0, "idle": 1})])
    stored = [{"partition": {"p": 0}, "offset": {"at": 0, "idle": 1}}]
    wait_until(lambda: rest.get(f"/connectors/{name}/offsets")["offsets"] == stored)


def test_a_topic_is_created_as_the_settings_say(rest, servers, name, scene):
    scene.items = ["a"]
    creation = {"partitions": 3, "replication__factor": 1}
    settings = {f"topic__creation__default__{key}": value for key, value in creation.items()}
    put(rest, name, topic=f"{name}-created", **settings)
    assert values(servers, f"{name}-created", 1) == ["a"]
    found = AdminClient({"bootstrap.servers": servers}).list_topics(timeout=10).topics
    assert len(found[f"{name}-created"].partitions) == 3


def test_a_secret_is_given_to_the_task_and_shown_nowhere(rest, name, scene, monkeypatch, tmp_path):
    monkeypatch.setenv("STROM_TEST_TOKEN", "t0p-s3cret")
    scene.trouble = {"poll": [ConnectError("The login t0p-s3cret was refused.")]}
    put(rest, name, token="${env:STROM_TEST_TOKEN}", restart__backoff__ms=0)
    wait_until(lambda: rest.states(name).get(0, {}).get("state") == "FAILED")
    assert scene.settings.token == "t0p-s3cret"
    shown = [
        rest.get(f"/connectors/{name}{path}")
        for path in ("", "/config", "/status", "/tasks", "/logs", "/offsets")
    ]
    assert "t0p-s3cret" not in json.dumps(shown)
    assert "t0p-s3cret" not in repr(scene.settings)
    assert shown[1]["token"] == "${env:STROM_TEST_TOKEN}"
    assert "The login [hidden] was refused." in rest.states(name)[0]["trace"]


def test_a_password_in_a_configuration_is_hidden_and_kept_when_it_is_sent_back(rest, name, scene):
    put(rest, name, token="pl4in-password")
    config = rest.get(f"/connectors/{name}/config")
    assert config["token"] == "[hidden]"
    rest.ask("PUT", f"/connectors/{name}/config", {**config, "topic": "other"})
    wait_until(lambda: scene.settings is not None and scene.settings.topic == "other")
    assert scene.settings.token == "pl4in-password"


def test_what_a_connector_itself_finds_wrong_is_refused(rest, name):
    config = {"connector.class": f"{HERE}:TroubledSource", "scene": name, "token": "wr0ng-token"}
    status, body, _ = rest.ask("POST", "/connectors", {"name": name, "config": config})
    assert status == 400
    assert "[hidden] is wrong." in body["message"]


@pytest.mark.parametrize(
    ("setting", "hint"),
    [("scenes", "scene"), ("task.max", "tasks.max"), ("error.tolerance", "errors.tolerance")],
)
def test_an_unknown_setting_is_refused_with_the_nearest_right_one(rest, name, setting, hint):
    config = {"connector.class": f"{HERE}:TroubledSource", "scene": name, setting: "1"}
    status, body, _ = rest.ask("POST", "/connectors", {"name": name, "config": config})
    assert status == 400
    assert f"Unknown setting {setting}. Did you mean {hint}?" in body["message"]


@pytest.mark.parametrize("odd", ["a/b", "a%b", "a%2Fb", "x/config", "a\\b"])
def test_a_connector_whose_name_has_slashes_or_percents_is_reached(rest, name, scene, odd):
    odd = f"{name} {odd}"
    path = f"/connectors/{quote(odd, safe='')}"
    config = {"connector.class": f"{HERE}:TroubledSource", "scene": name}
    status, body, headers = rest.ask("PUT", f"{path}/config", config)
    assert (status, body["name"]) == (201, odd)
    assert {one.lower(): text for one, text in headers.items()}["location"] == rest.url + path
    rest.wait_for_states(quote(odd, safe=""), "RUNNING", tasks=1)
    assert rest.ask("DELETE", path)[0] == 204
    assert odd not in rest.get("/connectors")


@pytest.mark.parametrize("overrides", [{}, {"producer__override__message__max__bytes": 3_000_000}])
def test_a_record_that_is_too_large_fails_the_task_by_its_topic(rest, name, scene, overrides):
    scene.items = ["x" * 1_500_000]
    put(rest, name, topic=f"t-{name}", restart__backoff__ms=0, **overrides)
    wait_until(lambda: rest.states(name).get(0, {}).get("state") == "FAILED")
    trace = rest.states(name)[0]["trace"]
    assert f"1500000 bytes cannot be written to topic t-{name}" in trace
    assert "producer.override.message.max.bytes" in trace


def test_a_record_that_is_too_large_is_left_out_where_errors_are_tolerated(
    rest, servers, name, scene
):
    scene.items = ["a", "x" * 1_500_000, "b"]
    put(rest, name, topic=f"t-{name}", errors__tolerance="all")
    assert [value for value, _ in received(servers, f"t-{name}", 2)] == [b"a", b"b"]


def test_a_task_that_has_not_begun_says_what_it_waits_for(rest, name, scene):
    scene.trouble["start"] = [RetriableError("the far side is away")] * 3
    put(rest, name)
    wait_until(lambda: "the far side is away" in rest.states(name).get(0, {}).get("trace", ""))
    rest.wait_for_states(name, "RUNNING", tasks=1)
    assert "trace" not in rest.states(name)[0]


@pytest.mark.parametrize("new", [["new"], ["new"] * 5])
def test_a_sink_that_knows_no_topic_ids_fails_when_its_topic_is_recreated(
    rest, servers, name, scene, new
):
    topic, admin = f"t-{name}", AdminClient({"bootstrap.servers": servers})
    scene.keeps_positions = True
    send(servers, topic, "a", "b", "c")
    put(rest, name, "TroubledSink", topics=topic, restart__backoff__ms=100)
    wait_until(lambda: scene.stored == ["a", "b", "c"])
    admin.delete_topics([topic])[topic].result()
    send(servers, topic, *new)
    wait_until(lambda: rest.states(name).get(0, {}).get("state") == "FAILED")
    assert "deleted and recreated" in rest.states(name)[0]["trace"]
    wait_until(lambda: scene.calls["start"] >= 3)  # and again whenever it is started
    assert "new" not in scene.stored


@pytest.mark.parametrize(
    ("regex", "wanted"), [(r"{}-\d+", ["1", "22"]), ("{0}-1|{0}-x", ["1", "x"])]
)
def test_topics_are_found_by_their_whole_names(rest, servers, name, scene, regex, wanted):
    topics = [f"{name}-{end}" for end in ("1", "22", "x", "1x", "x-1")]
    for topic in topics:
        send(servers, topic, topic)
    put(rest, name, "TroubledSink", topics__regex=regex.format(name))
    found = sorted(f"{name}-{end}" for end in wanted)
    wait_until(lambda: sorted(scene.stored) == found)
    wait_until(lambda: rest.get(f"/connectors/{name}/offsets")["offsets"])
    assert rest.get(f"/connectors/{name}/topics")[name]["topics"] == found


def test_a_source_that_says_where_transactions_end_is_asked(rest, servers, name, scene):
    scene.items = ["a", "b"]
    put(rest, name, "BoundarySource", topic=f"t-{name}", transaction__boundary="connector")
    wait_until(lambda: scene.calls["poll"] > 3)
    scene.trouble["poll"] = [ConnectError("it fails in the middle")]
    wait_until(lambda: scene.calls["start"] == 2)
    polls = scene.calls["poll"]
    wait_until(lambda: scene.calls["poll"] > polls + 3)
    assert rest.get(f"/connectors/{name}/offsets")["offsets"] == []
    scene.ends = True
    wait_until(lambda: scene.delivered == [({"p": 0}, {"at": 2})])
    assert [value for value, _ in received(servers, f"t-{name}", 2)] == [b"a", b"b"]


def test_a_source_that_does_not_is_refused_that_boundary(rest, name):
    config = {"connector.class": f"{HERE}:TroubledSource", "scene": name}
    config["transaction.boundary"] = "connector"
    status, body, _ = rest.ask("PUT", f"/connectors/{name}/config", config)
    assert (status, "does not define transactions" in body["message"]) == (400, True)
