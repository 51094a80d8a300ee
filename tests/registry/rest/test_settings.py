"""/config and /mode."""

import json

import pytest

from tests.registry.conftest import optional, record

BREAKING = record("ms", "user")


def test_compatibility_is_set_for_all_and_for_one(ask_alone):
    ask = ask_alone
    assert ask("GET", "/config").body == {"compatibilityLevel": "BACKWARD"}
    assert ask("PUT", "/config", {"compatibility": "none"}).body == {"compatibility": "NONE"}
    assert ask("GET", "/config/s").error == 40408
    assert ask("GET", "/config/s", defaultToGlobal="true").body == {"compatibilityLevel": "NONE"}
    ask("PUT", "/config/s", {"compatibility": "FULL"})
    assert ask("GET", "/config/s").body == {"compatibilityLevel": "FULL"}
    assert ask("DELETE", "/config/s").body == {"compatibilityLevel": "FULL"}
    assert ask("DELETE", "/config/s").error == 40401
    assert ask("DELETE", "/config").body == {"compatibilityLevel": "NONE"}
    assert ask("GET", "/config").body == {"compatibilityLevel": "BACKWARD"}


def test_the_compatibility_of_a_subject_is_obeyed(ask, subject):
    ask.register(subject, record("ms"))
    assert ask.register(subject, BREAKING).status == 409
    ask("PUT", f"/config/{subject}", {"compatibility": "NONE"})
    assert ask.register(subject, BREAKING).status == 200


def test_transitive_compatibility_looks_at_all_versions(ask, subject):
    ask.register(subject, record("ms", optional("user")))
    ask.register(subject, record("ms"))
    third = record("ms", {"name": "user", "type": "int", "default": 0})
    checked = f"/compatibility/subjects/{subject}/versions"
    body = {"schema": json.dumps(third)}
    assert ask("POST", checked, body).body == {"is_compatible": True}
    ask("PUT", f"/config/{subject}", {"compatibility": "BACKWARD_TRANSITIVE"})
    verbose = ask("POST", checked, body, verbose="true").body
    assert verbose["is_compatible"] is False
    assert "version 1" in verbose["messages"][0]


@pytest.mark.parametrize("body", [{"compatibility": "SOME"}, {"compatibility": 7}])
def test_an_unknown_compatibility_is_refused(ask, body):
    assert ask("PUT", "/config", body).error == 42203
    assert ask("GET", "/config").body == {"compatibilityLevel": "BACKWARD"}


def test_a_subject_can_be_configured_to_normalize(ask, subject):
    schema = {"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "string"}}}
    turned = {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "type": "object"}
    ask("PUT", f"/config/{subject}", {"normalize": True, "compatibility": "NONE"})
    told = {"normalize": True, "compatibilityLevel": "NONE"}
    assert ask("GET", f"/config/{subject}").body == told
    first = ask.register(subject, schema, schemaType="JSON").body["id"]
    assert ask.register(subject, turned, schemaType="JSON").body["id"] == first


def test_nothing_changes_in_read_only_mode(ask, subject):
    ask.register(subject, record("ms"))
    assert ask("PUT", f"/mode/{subject}", {"mode": "READONLY"}).body == {"mode": "READONLY"}
    assert ask.register(subject, record("ms", optional("x"))).error == 42205
    assert ask("DELETE", f"/subjects/{subject}").error == 42205
    assert ask("DELETE", f"/subjects/{subject}/versions/1").error == 42205
    assert ask("PUT", f"/config/{subject}", {"compatibility": "NONE"}).error == 42205
    assert ask("DELETE", f"/mode/{subject}").body == {"mode": "READONLY"}
    assert ask("DELETE", f"/mode/{subject}").error == 40401
    assert ask.register(subject, record("ms", optional("x"))).status == 200


def test_the_mode_of_all_can_override_that_of_each(ask_alone):
    ask = ask_alone
    assert ask("GET", "/mode").body == {"mode": "READWRITE"}
    ask("PUT", "/mode/s", {"mode": "READWRITE"})
    ask("PUT", "/mode", {"mode": "READONLY"})
    assert ask.register("s", record("ms")).status == 200
    assert ask.register("t", record("ms")).error == 42205
    ask("PUT", "/mode", {"mode": "READONLY_OVERRIDE"})
    assert ask.register("s", record("ms", optional("x"))).error == 42205
    assert ask("GET", "/mode/s", defaultToGlobal="true").body == {"mode": "READONLY_OVERRIDE"}
    assert ask("DELETE", "/mode").body == {"mode": "READONLY_OVERRIDE"}


@pytest.mark.parametrize("body", [{"mode": "WRITEONLY"}, {"mode": None}, {}])
def test_an_unknown_mode_is_refused(ask, body):
    assert ask("PUT", "/mode", body).error == 42204


def test_an_import_brings_ids_and_versions_along(ask_alone):
    ask = ask_alone
    ask("PUT", "/mode/s", {"mode": "IMPORT"})
    assert ask.register("s", record("ms")).error == 42205
    imported = ask.register("s", record("ms"), id=42, version=7).body
    assert (imported["id"], imported["version"]) == (42, 7)
    assert ask.register("s", record("ms"), id=42, version=7).body["version"] == 7
    assert ask.register("s", BREAKING, id=42).error == 42205
    assert ask.register("s", BREAKING, id=43).status == 200
    ask("PUT", "/mode/s", {"mode": "READWRITE"})
    assert ask.register("t", record("other")).body["id"] == 44


def test_an_import_needs_an_empty_place_unless_it_is_forced(ask_alone):
    ask = ask_alone
    ask.register("s", record("ms"))
    assert ask("PUT", "/mode", {"mode": "IMPORT"}).error == 42205
    assert ask("PUT", "/mode", {"mode": "IMPORT"}, force="true").status == 200
    ask("PUT", "/mode", {"mode": "READWRITE"})
    ask("DELETE", "/subjects/s")
    assert ask("PUT", "/mode", {"mode": "IMPORT"}).status == 200
    assert ask("GET", "/subjects", deleted="true").body == []
