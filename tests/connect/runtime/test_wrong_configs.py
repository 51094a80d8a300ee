"""Configurations that would not do what they seem to say are refused by the name of the setting."""

import pytest

from strom.connect.api import InvalidSettings
from strom.connect.runtime.rest.server import RunningWorker
from strom.connect.runtime.secrets import Secrets
from strom.connect.runtime.settings import WorkerSettings
from strom.connect.runtime.validation import Checker

SOURCE = {"name": "c", "connector.class": "FileStreamSource", "file": "/tmp/in.txt", "topic": "t"}
SINK = {"name": "c", "connector.class": "FileStreamSink", "file": "/tmp/out.txt", "topics": "t"}


def problems(config, **changes):
    texts = {**config, **{name.replace("__", "."): text for name, text in changes.items()}}
    return Checker(WorkerSettings(), {}, Secrets()).problems(texts)


def test_what_is_right_passes():
    assert problems(SOURCE) == {}
    assert problems(SINK) == {}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tasks.max", "not a whole number"),
        ("batch.size", "not a whole number"),
        ("errors.log.enable", "neither true nor false"),
        ("errors.tolerance", "none, all"),
        ("topic", "is empty"),
        ("value.converter", "is empty"),
        ("key.converter", "is empty"),
    ],
)
def test_an_empty_text_is_no_value_of_these(name, words):
    found = problems({**SOURCE, name: ""})
    assert list(found) == [name]
    assert words in found[name][0]


@pytest.mark.parametrize("name", ["transforms", "predicates", "encoding"])
def test_an_empty_text_is_the_same_as_none_of_a_list_or_an_optional_text(name):
    assert problems({**SOURCE, name: ""}) == {}


def test_settings_of_a_transform_that_is_not_listed_are_refused():
    found = problems(SOURCE, transforms__hide__type="MaskField$Value")
    assert "transforms=hide" in found["transforms.hide.type"][0]
    found = problems(
        SOURCE,
        transforms="hide",
        transforms__hide__type="HoistField$Value",
        transforms__hide__field="f",
        transforms__hid__predicate="p",
    )
    assert list(found) == ["transforms.hid.predicate"]
    assert "Did you mean hide?" in found["transforms.hid.predicate"][0]
    assert list(problems(SOURCE, predicates__p__type="HasHeaderKey")) == ["predicates.p.type"]


def test_settings_of_a_converter_that_is_not_named_are_refused():
    found = problems(SOURCE, value__converter__schemas__enable="false")
    assert "set that too" in found["value.converter.schemas.enable"][0]


@pytest.mark.parametrize("kind", ["producer", "consumer", "admin"])
def test_a_setting_that_no_client_knows_is_refused(kind):
    name = f"{kind}.override.no.such.thing"
    found = problems({**SOURCE, name: "1"})
    assert "no.such.thing" in found[name][0]
    assert problems({**SOURCE, f"{kind}.override.client.id": "mine"}) == {}


def test_topics_that_cannot_be_are_refused():
    assert "'a b'" in problems(SINK, topics="t,a b")["topics"][0]
    name = "errors.deadletterqueue.topic.name"
    assert "'x/y'" in problems({**SINK, name: "x/y"})[name][0]
    regex = {one: text for one, text in SINK.items() if one != "topics"}
    assert "topics.regex" in problems({**regex, "topics.regex": "a("})["topics.regex"][0]


@pytest.mark.parametrize("name", ["a\tb", "a\nb", "a\x01b", "a\x7fb"])
def test_a_name_with_control_characters_is_refused(name):
    assert list(problems({**SOURCE, "name": name})) == ["name"]


@pytest.mark.parametrize("name", ["key.converter", "value.converter", "header.converter"])
def test_a_worker_does_not_start_with_a_converter_that_is_none(name):
    with pytest.raises(InvalidSettings, match=r"Unknown converter Strng"):
        RunningWorker({"bootstrap.servers": "127.0.0.1:1", "rest.port": "0", name: "Strng"})


def test_a_workers_converters_may_have_references(monkeypatch):
    monkeypatch.setenv("STROM_TEST_FLAG", "sometimes")
    texts = {"rest.port": "0", "value.converter.schemas.enable": "${env:STROM_TEST_FLAG}"}
    with pytest.raises(InvalidSettings, match="sometimes"):
        RunningWorker(texts)


def test_everything_wrong_is_reported_at_once():
    found = problems(SOURCE, fil="x", tasks__max="many", transforms__a__type="Cast$Value")
    assert set(found) == {"fil", "tasks.max", "transforms.a.type"}
