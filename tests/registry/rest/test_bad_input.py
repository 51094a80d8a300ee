"""Whatever is asked, the registry answers in its own words and goes on."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strom.registry.content_parsing import _parse_cached
from strom.registry.formats import parsing
from strom.registry.refusals import RestError
from strom.registry.slow_work import SlowWork, results_of
from strom.supervision.limited_calls import CallFailed, LimitExceeded

TEXTS = st.text(max_size=8) | st.sampled_from(
    ["latest", "-1", "0", "1", "99999999999999999999", "é/%"]
)
SEGMENTS = st.sampled_from(
    [
        "subjects",
        "versions",
        "schemas",
        "ids",
        "config",
        "mode",
        "compatibility",
        "schema",
        "1",
        "s",
    ]
) | TEXTS.map(lambda text: quote(text, safe=""))
NAMES = st.sampled_from(
    ["schema", "schemaType", "references", "compatibility", "mode", "id", "version", "metadata"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.just('"int"'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | TEXTS, inner, max_size=3),
    max_leaves=8,
)
QUERIES = st.dictionaries(
    st.sampled_from(
        [
            "deleted",
            "permanent",
            "offset",
            "limit",
            "format",
            "normalize",
            "subjectPrefix",
            "verbose",
        ]
    ),
    st.sampled_from(["true", "false", "serialized", "1", "-1", "x", ""]),
    max_size=2,
)


@given(
    st.sampled_from(["GET", "POST", "PUT", "DELETE"]),
    st.lists(SEGMENTS, max_size=5),
    st.dictionaries(NAMES, VALUES, max_size=3),
    QUERIES,
)
@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_nothing_makes_it_fail(ask_alone, method, segments, body, query):
    if segments[:1] == ["mode"] and method == "PUT":
        return  # a registry that may only be read has nothing more to show
    answer = ask_alone(method, "/" + "/".join(segments), body, **query)
    assert answer.status < 500, answer
    if answer.status >= 400:
        assert answer.body["message"]
        assert str(answer.error).startswith(str(answer.status))


LONG = "9" * 5_000


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"/schemas/ids/{LONG}", 404),
        (f"/schemas/ids/{LONG}/schema", 404),
        (f"/subjects/s/versions/{LONG}", 422),
        (f"/subjects?offset={LONG}", 404),
        (f"/subjects?limit={LONG}", 404),
        (f"/subjects?offset={10**30}&limit={10**30}", 200),
    ],
)
def test_numbers_of_any_length_are_numbers(ask, path, status):
    assert ask("GET", path).status == status


@pytest.mark.parametrize("value", [10**400, 10**30, -(10**30)])
def test_chosen_ids_and_versions_of_any_size_are_refused(ask, subject, value):
    for name in ("id", "version"):
        assert ask.register(subject, '"int"', **{name: value}).status == 422
    reference = {"name": "a", "subject": subject, "version": value}
    assert ask.register(subject, '"int"', references=[reference]).status == 422


class Heavy:
    """Stands for a library that takes as long as it likes, for schemas that name it."""

    def __init__(self):
        self.is_called = threading.Event()
        self.go_on = threading.Event()

    def call(self, function, *arguments):
        self.is_called.set()
        self.go_on.wait()
        raise LimitExceeded("It takes too much CPU time.")


def test_a_schema_that_takes_long_to_parse_delays_no_other(ask_alone, monkeypatch):
    heavy = Heavy()
    monkeypatch.setattr(parsing, "_libraries", lambda: heavy)
    sent = {"schemaType": "JSON"}
    with ThreadPoolExecutor(20) as threads:
        waiting = [threads.submit(ask_alone.register, "a", {"a": n}, **sent) for n in range(20)]
        try:
            assert heavy.is_called.wait(30)
            for _ in range(50):  # more than all threads of the server could wait for
                assert ask_alone("GET", "/subjects").body == []
            assert ask_alone("GET", "/schemas/ids/1").error == 40403
            assert not any(one.done() for one in waiting)
        finally:
            heavy.go_on.set()
        answers = [one.result() for one in waiting]
    assert {answer.error for answer in answers} == {42201}
    assert "too complex" in answers[0].body["message"]


def stored_again(ask_alone, *titles):
    """Versions of the subject `a` that are not parsed yet, as after a restart."""
    ask_alone("PUT", "/config/a", {"compatibility": "NONE"})
    for title in titles:
        text = f'syntax = "proto3"; message {title} {{}}'
        assert ask_alone.register("a", text, schemaType="PROTOBUF").status == 200
    ask_alone("PUT", "/config/a", {"compatibility": "FULL_TRANSITIVE"})
    _parse_cached.cache_clear()


PROTO = {"schema": 'syntax = "proto3"; message C {}', "schemaType": "PROTOBUF"}
NEEDS_STORED = {
    "serialized": ("GET", "/schemas/ids/1?format=serialized", None),
    "look-up": ("POST", "/subjects/a", PROTO),
    "check": ("POST", "/compatibility/subjects/a/versions", PROTO),
    "registration": ("POST", "/subjects/a/versions", PROTO),
}


class HeavyStored(Heavy):
    """The given schema is parsed at once, stored ones never."""

    def __init__(self):
        super().__init__()
        self._libraries = parsing._libraries()

    def call(self, function, text, *others):
        if "message C" in text:
            return self._libraries.call(function, text, *others)
        return super().call(function, text, *others)


@pytest.mark.parametrize("request_of", NEEDS_STORED.values(), ids=NEEDS_STORED)
def test_a_stored_schema_that_takes_long_to_parse_delays_no_other(
    ask_alone, monkeypatch, request_of
):
    stored_again(ask_alone, "A", "B")
    heavy = HeavyStored()
    with ThreadPoolExecutor(1) as threads, monkeypatch.context() as patched:
        patched.setattr(parsing, "_libraries", lambda: heavy)
        waiting = threads.submit(ask_alone, *request_of)
        try:
            assert heavy.is_called.wait(30)
            assert ask_alone("GET", "/subjects").body == ["a"]
            # Neither the state nor the writing of changes is locked.
            assert ask_alone.register("other", '"int"').status == 200
            assert not waiting.done()
        finally:
            heavy.go_on.set()
        waiting.result()
    _parse_cached.cache_clear()


@pytest.mark.parametrize("request_of", NEEDS_STORED.values(), ids=NEEDS_STORED)
def test_a_schema_that_cannot_be_parsed_at_present_is_tried_once(
    ask_alone, monkeypatch, request_of
):
    stored_again(ask_alone, "A", "B")
    calls = []

    class NoProcess:
        def call(self, *arguments):
            calls.append(arguments)
            raise CallFailed("No child process can be started.")

    with monkeypatch.context() as patched:
        patched.setattr(parsing, "_libraries", NoProcess)
        assert ask_alone(*request_of).status == 503
    assert len(calls) == 1


def test_a_state_that_changes_all_the_time_is_given_up():
    work, numbers = SlowWork(), itertools.count()
    with pytest.raises(RestError) as refused:
        work.decide(lambda: results_of({next(numbers): lambda: None}))
    assert refused.value.code == 503


class Exhausted:
    """Stands for a machine that has no process for the schemas with a certain word."""

    def __init__(self, word):
        self._word = word
        self._libraries = parsing._libraries()

    def call(self, function, text, *others):
        if self._word in text:
            raise CallFailed("No child process can be started.")
        return self._libraries.call(function, text, *others)


def test_a_shortage_is_not_taken_for_an_invalid_version(ask_alone, monkeypatch):
    assert ask_alone.register("a", {"title": "earlier"}, schemaType="JSON").status == 200
    _parse_cached.cache_clear()
    exhausted = Exhausted("earlier")
    with monkeypatch.context() as patched:
        patched.setattr(parsing, "_libraries", lambda: exhausted)
        response = ask_alone.register("a", {"title": "later"}, schemaType="JSON")
        assert response.status == 503
        assert "Retry later" in response.body["message"]
    assert ask_alone.register("a", {"title": "later"}, schemaType="JSON").status == 200
