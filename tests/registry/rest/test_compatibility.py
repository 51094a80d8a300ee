"""/compatibility: a schema is tested and not registered."""

import json

from tests.registry.conftest import optional, record


def test_a_schema_is_tested_against_one_version_or_those_that_count(ask, subject):
    ask.register(subject, record("ms"))
    good = {"schema": json.dumps(record("ms", optional("user")))}
    bad = {"schema": json.dumps(record("ms", "user"))}
    for path in ("", "/1", "/latest"):
        path = f"/compatibility/subjects/{subject}/versions{path}"
        assert ask("POST", path, good).body == {"is_compatible": True}
        assert ask("POST", path, bad).body == {"is_compatible": False}
        told = ask("POST", path, bad, verbose="true").body
        assert told["is_compatible"] is False
        assert any("user" in message for message in told["messages"])
    assert ask("GET", f"/subjects/{subject}/versions").body == [1]


def test_anything_fits_a_subject_that_is_not_there(ask, subject):
    body = {"schema": '"int"'}
    assert ask("POST", f"/compatibility/subjects/{subject}/versions", body).body["is_compatible"]
    latest = ask("POST", f"/compatibility/subjects/{subject}/versions/latest", body)
    assert latest.body["is_compatible"]
    assert ask("POST", f"/compatibility/subjects/{subject}/versions/1", body).error == 40402


def test_a_missing_schema_is_reported_as_such(ask, subject):
    path = f"/compatibility/subjects/{subject}/versions"
    assert ask("POST", path, {"schema": "nonsense"}).error == 42201
    told = ask("POST", path, {"schema": "nonsense"}, verbose="true").body
    assert told["is_compatible"] is False
    assert told["messages"]


def test_another_language_is_never_compatible(ask, subject):
    ask.register(subject, record("ms"))
    body = {"schema": "{}", "schemaType": "JSON"}
    path = f"/compatibility/subjects/{subject}/versions"
    assert ask("POST", path, body).body == {"is_compatible": False}
