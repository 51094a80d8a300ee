"""Kafka Connect's REST interface: the same tests ask strom's worker, on both brokers, and Kafka's own."""

import itertools
import time
from urllib.parse import quote

import pytest

from strom.connect.runtime.rest.server import RunningWorker
from tests.connect.runtime.workers import STRING, Rest, wait_until
from tools.kafka_connect import RealConnect

KINDS = {
    "strom": [],
    "strom-on-kafka": [pytest.mark.oracle],
    "kafka": [pytest.mark.oracle],
}
_numbers = itertools.count(1)


@pytest.fixture(
    scope="module", params=[pytest.param(kind, marks=marks) for kind, marks in KINDS.items()]
)
def rest(request):
    """A worker's REST interface."""
    broker = "strom_server" if request.param == "strom" else "kafka_server"
    servers = request.getfixturevalue(broker).bootstrap_servers
    if request.param == "kafka":
        with RealConnect(servers) as worker:
            yield Rest(worker.url)
        return
    settings = {
        "bootstrap.servers": servers,
        "rest.port": "0",
        "group.id": "rest-tests",
        "config.storage.topic": "rest-tests-configs",
        "offset.storage.topic": "rest-tests-offsets",
        "status.storage.topic": "rest-tests-status",
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
        "key.converter": STRING,
        "value.converter": STRING,
        "offset.flush.interval.ms": "500",
    }
    with RunningWorker(settings) as worker:
        wait_until(lambda: Rest(worker.url).ask("GET", "/health")[0] == 200)
        yield Rest(worker.url)


@pytest.fixture
def name():
    return f"c{next(_numbers)}"


@pytest.fixture
def config(tmp_path, name):
    """A file source with three lines to read."""
    (tmp_path / "in.txt").write_text("a\nb\nc\n")
    return {
        "connector.class": "FileStreamSource",
        "file": str(tmp_path / "in.txt"),
        "topic": f"lines-{name}",
        "tasks.max": "1",
    }


@pytest.fixture
def source(rest, name, config):
    """A running file source that has delivered its lines."""
    status, body, _ = rest.ask("POST", "/connectors", {"name": name, "config": config})
    assert status == 201, body
    rest.wait_for_states(name, "RUNNING", tasks=1)
    wait_until(lambda: rest.get(f"/connectors/{name}/offsets")["offsets"])
    yield name
    rest.ask("DELETE", f"/connectors/{name}")


def test_the_worker_says_what_it_is(rest):
    assert set(rest.get("/")) == {"version", "commit", "kafka_cluster_id"}
    assert rest.get("/health") == {
        "status": "healthy",
        "message": "Worker has completed startup and is ready to handle requests.",
    }


def test_plugins_go_by_kafkas_class_names(rest):
    listed = {(one["class"], one["type"]) for one in rest.get("/connector-plugins")}
    assert ("org.apache.kafka.connect.file.FileStreamSourceConnector", "source") in listed
    assert ("org.apache.kafka.connect.file.FileStreamSinkConnector", "sink") in listed
    assert all(set(one) == {"class", "type", "version"} for one in rest.get("/connector-plugins"))


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "/connectors/none", 404, "Connector none not found"),
        ("GET", "/connectors/none/config", 404, "Connector none not found"),
        ("GET", "/connectors/none/tasks", 404, "Connector none not found"),
        ("GET", "/connectors/none/status", 404, "No status found for connector none"),
        ("GET", "/connectors/none/tasks/0/status", 404, "No status found for task none-0"),
        ("GET", "/connectors/none/offsets", 404, "Connector none not found"),
        ("DELETE", "/connectors/none", 404, "Connector none not found"),
        ("DELETE", "/connectors/none/offsets", 404, "Connector none not found"),
        ("PUT", "/connectors/none/pause", 404, "Unknown connector none"),
        ("PUT", "/connectors/none/resume", 404, "Unknown connector none"),
        ("PUT", "/connectors/none/stop", 404, "Unknown connector none"),
        ("POST", "/connectors/none/restart", 404, "Unknown connector: none"),
        ("POST", "/connectors/none/tasks/0/restart", 404, "Unknown connector: none"),
        ("GET", "/connector-plugins/Nope/config", 404, "Unknown plugin Nope."),
        ("GET", "/nope", 404, "HTTP 404 Not Found"),
        ("PATCH", "/connectors", 405, "HTTP 405 Method Not Allowed"),
    ],
)
def test_what_is_not_there_is_reported_in_kafkas_words(rest, method, path, status, message):
    answer = rest.ask(method, path, {} if method == "PATCH" else None)
    assert answer[:2] == (status, {"error_code": status, "message": message})


def test_a_body_that_is_not_json_by_its_type_is_refused(rest, name, config):
    body = {"name": name, "config": config}
    assert rest.ask("POST", "/connectors", body, kind="text/plain")[0] == 415
    assert rest.ask("PUT", f"/connectors/{name}/config", config, kind="text/plain")[0] == 415
    assert name not in rest.get("/connectors")


def test_a_connector_is_created_shown_and_removed(rest, name, config):
    status, body, headers = rest.ask("POST", "/connectors", {"name": name, "config": config})
    assert (status, body) == (
        201,
        {"name": name, "config": {**config, "name": name}, "tasks": [], "type": "source"},
    )
    assert {key.lower(): value for key, value in headers.items()}["location"] == (
        f"{rest.url}/connectors/{name}"
    )
    assert name in rest.get("/connectors")
    assert rest.get(f"/connectors/{name}/config") == {**config, "name": name}
    again = rest.ask("POST", "/connectors", {"name": name, "config": config})
    assert again[:2] == (
        409,
        {"error_code": 409, "message": f"Connector {name} already exists"},
    )
    rest.wait_for_states(name, "RUNNING", tasks=1)
    assert rest.get(f"/connectors/{name}")["tasks"] == [{"connector": name, "task": 0}]
    assert rest.ask("DELETE", f"/connectors/{name}")[:2] == (204, None)
    assert name not in rest.get("/connectors")
    wait_until(lambda: rest.ask("GET", f"/connectors/{name}/status")[0] == 404)


def test_states_tasks_topics_and_offsets_have_kafkas_shapes(rest, source, config):
    status = rest.get(f"/connectors/{source}/status")
    assert set(status) == {"name", "connector", "tasks", "type"}
    assert set(status["connector"]) == {"state", "worker_id", "version"}
    assert [set(task) for task in status["tasks"]] == [{"id", "state", "worker_id", "version"}]
    assert status["connector"]["worker_id"] == rest.url.removeprefix("http://")
    tasks = rest.get(f"/connectors/{source}/tasks")
    assert [task["id"] for task in tasks] == [{"connector": source, "task": 0}]
    assert tasks[0]["config"]["file"] == config["file"]
    assert rest.get(f"/connectors/{source}/tasks/0/status") == status["tasks"][0]
    assert rest.get(f"/connectors/{source}/topics") == {source: {"topics": [config["topic"]]}}
    [offset] = rest.get(f"/connectors/{source}/offsets")["offsets"]
    assert offset["partition"] == {"filename": config["file"]}
    assert offset["offset"]["position"] == 6


def test_lists_are_expanded(rest, source):
    both = rest.get("/connectors?expand=status&expand=info")
    assert both[source]["status"] == rest.get(f"/connectors/{source}/status")
    assert both[source]["info"] == rest.get(f"/connectors/{source}")
    assert set(rest.get("/connectors?expand=status")[source]) == {"status"}


def test_a_configuration_is_replaced_and_patched(rest, source, config):
    changed = {**config, "batch.size": "100"}
    status, body, _ = rest.ask("PUT", f"/connectors/{source}/config", changed)
    assert (status, body["config"]) == (200, {**changed, "name": source})
    status, body, _ = rest.ask(
        "PATCH", f"/connectors/{source}/config", {"batch.size": None, "tasks.max": "2"}
    )
    assert (status, body["config"]) == (200, {**config, "tasks.max": "2", "name": source})


@pytest.mark.parametrize("odd", ["a b", "ä😀", "a+b?c#d", "a&b=c;d"])
def test_names_may_be_odd(rest, name, config, odd):
    odd = f"{name} {odd}"
    path = f"/connectors/{quote(odd, safe='')}"
    assert rest.ask("POST", "/connectors", {"name": odd, "config": config})[0] == 201
    assert rest.get(f"{path}/config")["name"] == odd
    assert rest.ask("DELETE", path)[0] == 204
    assert odd not in rest.get("/connectors")


def test_put_creates_what_is_not_there(rest, name, config):
    status, body, _ = rest.ask("PUT", f"/connectors/{name}/config", config)
    assert (status, body["name"]) == (201, name)
    rest.ask("DELETE", f"/connectors/{name}")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"connector.class": "Nope"}, "Nope"),
        ({"topic": None}, "topic"),
        ({"tasks.max": "two"}, "tasks.max"),
        ({"tasks.max": "0"}, "tasks.max"),
        ({"name": "other"}, "doesn't match connector name in the URL"),
        ({"errors.tolerance": "some"}, "errors.tolerance"),
        ({"value.converter": "NopeConverter"}, "NopeConverter"),
    ],
)
def test_a_wrong_configuration_is_refused_by_the_name_of_what_is_wrong(
    rest, name, config, changes, words
):
    wrong = {key: text for key, text in {**config, **changes}.items() if text is not None}
    status, body, _ = rest.ask("POST", "/connectors", {"name": name, "config": wrong})
    assert (status, body["error_code"]) == (400, 400)
    assert words in body["message"]
    assert name not in rest.get("/connectors")


def test_an_empty_number_or_topic_is_refused(rest, name, config):
    for setting in ("tasks.max", "batch.size", "topic", "errors.tolerance", "value.converter"):
        body = {"name": name, "config": {**config, setting: ""}}
        status, answer, _ = rest.ask("POST", "/connectors", body)
        assert (status, setting in answer["message"]) == (400, True)


def test_a_name_with_control_characters_is_refused(rest, config):
    status, body, _ = rest.ask("POST", "/connectors", {"name": "a\tb", "config": config})
    assert (status, "control" in body["message"]) == (400, True)


def test_a_field_that_no_connector_has_is_refused(rest, name, config):
    body = {"name": name, "config": config, "intial_state": "STOPPED"}
    assert rest.ask("POST", "/connectors", body)[0] >= 400
    assert name not in rest.get("/connectors")


def test_a_slash_at_the_end_of_a_path_does_not_matter(rest):
    assert rest.get("/connectors/") == rest.get("/connectors")


def test_a_regular_expression_for_topics_must_be_one(rest, name, tmp_path):
    config = {
        "connector.class": "FileStreamSink",
        "file": str(tmp_path / "o"),
        "topics.regex": "a(",
    }
    status, body, _ = rest.ask("POST", "/connectors", {"name": name, "config": config})
    assert (status, "topics.regex" in body["message"]) == (400, True)


def test_a_sink_without_topics_is_refused(rest, name, tmp_path):
    config = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out.txt")}
    status, body, _ = rest.ask("POST", "/connectors", {"name": name, "config": config})
    assert status == 400
    assert "topics.regex" in body["message"]


def test_validation_lists_every_setting_with_its_errors(rest, config):
    path = "/connector-plugins/FileStreamSource/config/validate"
    status, body, _ = rest.ask("PUT", path, {**config, "name": "x", "tasks.max": "two"})
    assert status == 200
    assert set(body) == {"name", "error_count", "groups", "configs"}
    assert body["error_count"] >= 1
    infos = {one["value"]["name"]: one for one in body["configs"]}
    wrong = infos["tasks.max"]
    assert set(wrong["value"]) == {"name", "value", "recommended_values", "errors", "visible"}
    assert "tasks.max" in wrong["value"]["errors"][0]
    assert set(wrong["definition"]) == {
        *("name", "type", "required", "default_value", "importance", "documentation", "group"),
        *("order_in_group", "width", "display_name", "dependents"),
    }
    assert wrong["definition"]["type"] == "INT"
    assert infos["topic"]["definition"]["required"] is True
    assert infos["topic"]["value"]["value"] == config["topic"]
    assert rest.ask("PUT", path, {**config, "name": "x"})[1]["error_count"] == 0


def test_a_plugin_lists_its_settings(rest):
    found = {one["name"]: one for one in rest.get("/connector-plugins/FileStreamSource/config")}
    assert found["topic"]["required"] is True
    assert found["batch.size"]["default_value"] is not None


def test_a_connector_pauses_and_resumes(rest, source, config):
    assert rest.ask("PUT", f"/connectors/{source}/pause")[:2] == (202, None)
    rest.wait_for_states(source, "PAUSED", tasks=1)
    assert rest.ask("PUT", f"/connectors/{source}/resume")[:2] == (202, None)
    rest.wait_for_states(source, "RUNNING", tasks=1)


def test_restarts_are_answered_and_done(rest, source):
    assert rest.ask("POST", f"/connectors/{source}/restart")[:2] == (204, None)
    rest.wait_for_states(source, "RUNNING", tasks=1)
    status, body, _ = rest.ask("POST", f"/connectors/{source}/restart?includeTasks=true")
    assert status == 202
    assert [one["state"] for one in (body["connector"], *body["tasks"])] == ["RESTARTING"] * 2
    rest.wait_for_states(source, "RUNNING", tasks=1)
    assert rest.ask("POST", f"/connectors/{source}/tasks/0/restart")[:2] == (204, None)
    status, body, _ = rest.ask("POST", f"/connectors/{source}/tasks/7/restart")
    assert (status, body["message"]) == (404, f"Unknown task: {source}-7")


def stop(rest, source):
    assert rest.ask("PUT", f"/connectors/{source}/stop")[0] == 204
    rest.wait_for_states(source, "STOPPED", tasks=0)
    assert rest.get(f"/connectors/{source}/tasks") == []


def test_offsets_are_changed_only_while_the_connector_is_stopped(rest, source, config):
    path = f"/connectors/{source}/offsets"
    pair = {"partition": {"filename": config["file"]}, "offset": {"position": 2}}
    status, body, _ = rest.ask("PATCH", path, {"offsets": [pair]})
    assert status == 400
    assert "must be in the STOPPED state" in body["message"]
    assert rest.ask("DELETE", path)[0] == 400
    stop(rest, source)
    assert rest.ask("PATCH", path, {"offsets": []})[0] == 400
    assert rest.ask("PATCH", path, {"offsets": [pair]})[:2] == (
        200,
        {"message": "The offsets for this connector have been altered successfully"},
    )
    assert rest.get(path)["offsets"] == [pair]
    rest.ask("PUT", f"/connectors/{source}/resume")
    wait_until(lambda: rest.get(path)["offsets"][0]["offset"]["position"] == 6)
    stop(rest, source)
    assert rest.ask("DELETE", path)[:2] == (
        200,
        {"message": "The offsets for this connector have been reset successfully"},
    )

    def is_reset():
        # Kafka's worker lists the partitions before it has read its log to the end, the offsets after.
        found = rest.get(path)["offsets"]
        assert all(one["offset"] is None for one in found)
        return not found

    wait_until(is_reset)


def test_a_sinks_offsets_are_those_of_its_group(rest, source, config, tmp_path):
    sink, target = f"{source}-sink", tmp_path / "out.txt"
    rest.put(sink, connector__class="FileStreamSink", file=target, topics=config["topic"])
    path = f"/connectors/{sink}/offsets"
    wait_until(lambda: rest.get(path)["offsets"])
    assert target.read_text() == "a\nb\nc\n"
    place = {"kafka_topic": config["topic"], "kafka_partition": 0}
    [found] = rest.get(path)["offsets"]
    assert found["partition"] == place
    assert found["offset"]["kafka_offset"] >= 3
    stop(rest, sink)
    pair = {"partition": place, "offset": {"kafka_offset": 1}}
    status, body, _ = rest.ask("PATCH", path, {"offsets": [pair]})
    assert status == 200, body
    assert rest.get(path)["offsets"] == [pair]
    rest.ask("PUT", f"/connectors/{sink}/resume")
    wait_until(lambda: target.read_text() == "a\nb\nc\nb\nc\n")
    stop(rest, sink)
    assert rest.ask("DELETE", path)[0] == 200
    rest.ask("PUT", f"/connectors/{sink}/resume")
    wait_until(lambda: target.read_text() == "a\nb\nc\nb\nc\na\nb\nc\n")
    rest.ask("DELETE", f"/connectors/{sink}")


def test_offsets_of_what_is_not_there_are_refused(rest, source, config, tmp_path):
    sink = f"{source}-sink"
    rest.put(sink, connector__class="FileStreamSink", file=tmp_path / "o", topics=config["topic"])
    rest.wait_for_states(sink, "RUNNING", tasks=1)
    stop(rest, sink)
    path = f"/connectors/{sink}/offsets"
    for topic, partition, offset in (
        (config["topic"], 77, {"kafka_offset": 1}),
        ("no-such-topic", 0, {"kafka_offset": 1}),
        (config["topic"], 0, {"kafka_offset": -1}),
        (config["topic"], 0, {"kafka_offset": "some"}),
        (config["topic"], 0, "some"),
    ):
        place = {"kafka_topic": topic, "kafka_partition": partition}
        body = {"offsets": [{"partition": place, "offset": offset}]}
        assert rest.ask("PATCH", path, body)[0] >= 400
    place = {"kafka_topic": config["topic"], "kafka_partition": 0}
    for wrong, offset, message in (
        ({}, None, "must contain the keys 'kafka_topic' and 'kafka_partition'"),
        (place | {"kafka_topic": None}, None, "Kafka topic names must be valid strings"),
        (
            place | {"kafka_partition": "x"},
            None,
            "Kafka partition value in the provided offsets: 'x'",
        ),
        (place, {}, "should either be null or contain the key 'kafka_offset'"),
        (place, {"kafka_offset": 2**70}, f"Kafka offset value in the provided offsets: '{2**70}'"),
    ):
        status, found, _ = rest.ask(
            "PATCH", path, {"offsets": [{"partition": wrong, "offset": offset}]}
        )
        assert (status, message in found["message"]) == (400, True), found
    rest.ask("DELETE", f"/connectors/{sink}")


def test_a_connector_can_begin_stopped(rest, name, config):
    body = {"name": name, "config": config, "initial_state": "STOPPED"}
    assert rest.ask("POST", "/connectors", body)[0] == 201
    rest.wait_for_states(name, "STOPPED", tasks=0)
    assert rest.get(f"/connectors/{name}/offsets") == {"offsets": []}
    rest.ask("DELETE", f"/connectors/{name}")


def test_log_levels_are_shown_and_set(rest):
    assert set(rest.get("/admin/loggers/root")) == {"level", "last_modified"}
    assert rest.ask("PUT", "/admin/loggers/some.part", {"level": "debug"})[:2] == (
        200,
        ["some.part"],
    )
    assert rest.get("/admin/loggers/some.part")["level"] == "DEBUG"
    assert rest.ask("GET", "/admin/loggers/no.such.part")[0] == 404
    assert rest.ask("PUT", "/admin/loggers/some.part", {"level": "loud"})[0] == 404
    assert rest.ask("PUT", "/admin/loggers/some.part", {})[0] == 400


def test_a_connector_that_was_removed_comes_back_where_it_was(rest, source, config):
    rest.ask("DELETE", f"/connectors/{source}")
    wait_until(lambda: rest.ask("GET", f"/connectors/{source}/status")[0] == 404)
    with open(config["file"], "a") as file:
        file.write("d\n")
    time.sleep(0.1)
    rest.put(source, **{key.replace(".", "__"): text for key, text in config.items()})
    wait_until(
        lambda: rest.get(f"/connectors/{source}/offsets")["offsets"][0]["offset"]["position"] == 8
    )
