"""/subjects, as Confluent's clients use it."""

import json
from urllib.parse import quote

import pytest

from tests.registry.conftest import optional, record

ONE = record("ms")
TWO = record("ms", optional("user"))
OTHER = record("ms", "user")


def test_a_schema_gets_an_id_and_a_version(ask, subject):
    first = ask.register(subject, ONE)
    assert first.status == 200
    assert first.content_type == "application/vnd.schemaregistry.v1+json"
    second = ask.register(subject, TWO)
    assert (first.body["version"], second.body["version"]) == (1, 2)
    assert second.body["id"] > first.body["id"]
    assert ask("GET", f"/subjects/{subject}/versions").body == [1, 2]


def test_the_same_schema_is_registered_once_however_it_is_written(ask, subject):
    first = ask.register(subject, json.dumps(ONE, indent=4))
    assert ask.register(subject, json.dumps(ONE)).body == first.body
    assert ask("GET", f"/subjects/{subject}/versions").body == [1]


def test_the_same_schema_has_the_same_id_under_every_subject(ask, subject):
    first, second = ask.register(subject, ONE), ask.register(f"{subject}-2", ONE)
    assert first.body["id"] == second.body["id"]
    subjects = ask("GET", f"/schemas/ids/{first.body['id']}/subjects").body
    assert {subject, f"{subject}-2"} <= set(subjects)


def test_a_version_is_shown_by_number_and_as_latest(ask, subject):
    ask.register(subject, ONE)
    newest = ask.register(subject, TWO).body
    shown = ask("GET", f"/subjects/{subject}/versions/latest").body
    assert shown == ask("GET", f"/subjects/{subject}/versions/2").body
    assert shown == ask("GET", f"/subjects/{subject}/versions/-1").body
    assert (shown["subject"], shown["version"], shown["id"]) == (subject, 2, newest["id"])
    assert json.loads(shown["schema"]) == TWO
    assert ask("GET", f"/subjects/{subject}/versions/2/schema").body == TWO


def test_a_subject_may_have_a_slash_in_its_name(ask, subject):
    name = f"google/type/{subject} ü%"
    assert ask.register(name, ONE).status == 200
    path = f"/subjects/{quote(name, safe='')}/versions"
    assert ask("GET", path).body == [1]
    assert name in ask("GET", "/subjects").body


def test_a_schema_is_looked_up_by_its_text(ask, subject):
    registered = ask.register(subject, ONE).body
    found = ask("POST", f"/subjects/{subject}", {"schema": json.dumps(ONE, indent=1)})
    assert found.status == 200
    assert (found.body["id"], found.body["version"]) == (registered["id"], 1)
    assert ask("POST", f"/subjects/{subject}", {"schema": json.dumps(TWO)}).error == 40403
    assert ask("POST", "/subjects/nobody", {"schema": json.dumps(ONE)}).error == 40401


@pytest.mark.parametrize("body", [{}, {"schema": None}, {"schema": " "}])
def test_no_schema_is_found_nowhere(ask, subject, body):
    assert ask("POST", f"/subjects/{subject}", body).error == 40401
    ask.register(subject, ONE)
    assert ask("POST", f"/subjects/{subject}", body).error == 40403
    path = f"/compatibility/subjects/{subject}/versions"
    refused = ask("POST", path, body)
    assert (refused.error, refused.body["message"]) == (42201, "Empty schema")


def test_a_request_without_a_schema_registers_the_latest_one(ask, subject):
    first = ask.register(subject, ONE).body
    path = f"/subjects/{subject}/versions"
    assert ask("POST", path, {}).body == first
    owned = {"metadata": {"properties": {"owner": "shop"}}}
    assert ask("POST", path, owned).body["version"] == 2
    shown = ask("GET", f"{path}/2").body
    assert (json.loads(shown["schema"]), shown["metadata"]) == (ONE, owned["metadata"])


def test_an_incompatible_schema_is_refused_with_the_reasons(ask, subject):
    ask.register(subject, ONE)
    refused = ask.register(subject, OTHER)
    assert (refused.status, refused.error) == (409, 409)
    assert "user" in refused.body["message"]
    assert ask("GET", f"/subjects/{subject}/versions").body == [1]


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/subjects/nobody/versions", 40401),
        ("GET", "/subjects/nobody/versions/1", 40401),
        ("GET", "/subjects/{subject}/versions/7", 40402),
        ("GET", "/subjects/{subject}/versions/0", 42202),
        ("GET", "/subjects/{subject}/versions/first", 42202),
        ("GET", "/subjects/{subject}/versions/99999999999", 42202),
        ("DELETE", "/subjects/nobody", 40401),
        ("DELETE", "/subjects/nobody/versions/1", 40401),
        ("DELETE", "/subjects/{subject}/versions/7", 40402),
        ("DELETE", "/subjects/{subject}?permanent=true", 40405),
        ("DELETE", "/subjects/{subject}/versions/1?permanent=true", 40407),
        ("GET", "/schemas/ids/999999", 40403),
        ("GET", "/schemas/ids/x", 404),
        ("GET", "/schemas/ids/99999999999/subjects", 404),
        ("GET", "/schemas/ids/-5", 40403),
        ("GET", "/config/{subject}", 40408),
        ("GET", "/mode/{subject}", 40409),
        ("GET", "/nothing/here", 404),
        ("PATCH", "/subjects", 405),
    ],
)
def test_what_is_not_there_has_confluents_code(ask, subject, method, path, code):
    ask.register(subject, ONE)
    answer = ask(method, path.format(subject=subject))
    assert answer.error == code
    assert answer.status == (code if code < 1000 else code // 100)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"schema": "no schema"}, 42201),
        ({"schema": ""}, 42201),
        ({"schema": None}, 42201),
        ({"schema": 7}, 42201),
        ({}, 42201),
        ({"schema": '"int"', "schemaType": "XML"}, 42201),
        ({"schema": '"int"', "references": [{"name": "x"}]}, 42201),
        ({"schema": '"int"', "references": [{"name": "x", "subject": "n", "version": 1}]}, 42201),
        ({"schema": '"int"', "references": "x"}, 42201),
        ({"schema": '"int"', "version": "x"}, 422),
        ({"schema": '"int"', "version": 7}, 42201),
        ({"schema": '"int"', "id": 7}, 42205),
        ({"schema": '"' + "[" * 100_000 + '"'}, 42201),
        ({"schema": '"' * 9_000_000}, 413),
        ([], 400),
        ("x", 400),
    ],
)
def test_bad_input_is_refused_in_words(ask, subject, body, code):
    answer = ask("POST", f"/subjects/{subject}/versions", body)
    assert answer.error == code
    assert answer.body["message"]
    assert subject not in ask("GET", "/subjects").body


def test_a_schema_that_is_too_large_for_a_record_is_refused(ask, subject):
    large = record({"name": "a", "type": "int", "doc": '"' * 450_000})
    answer = ask.register(subject, large)
    assert (answer.status, answer.error) == (422, 42209)
    # The registry goes on as if nothing had happened.
    assert ask.register(subject, ONE).status == 200


def test_a_body_that_is_no_json_is_refused(ask, subject):
    assert ask.raw("POST", f"/subjects/{subject}/versions", b"{").error == 400
    assert ask.raw("POST", f"/subjects/{subject}/versions", b"[" * 100_000).error == 400
    assert ask.raw("PUT", "/config", b"\xff").error == 400


@pytest.mark.parametrize("name", ["__GLOBAL", "__EMPTY", "with\tcontrol"])
def test_some_names_are_no_subjects(ask, name):
    assert ask.register(name, ONE).error == 42208


def test_a_subject_is_deleted_softly_and_then_for_good(ask, subject):
    first = ask.register(subject, ONE).body["id"]
    ask.register(subject, TWO)
    assert ask("DELETE", f"/subjects/{subject}").body == [1, 2]
    assert ask("DELETE", f"/subjects/{subject}").error == 40404
    assert ask("GET", f"/subjects/{subject}/versions").error == 40401
    assert ask("GET", f"/subjects/{subject}/versions", deleted="true").body == [1, 2]
    assert subject not in ask("GET", "/subjects").body
    assert subject in ask("GET", "/subjects", deleted="true").body
    assert ask("GET", "/subjects", deletedOnly="true", subjectPrefix=subject).body == [subject]
    # Data that was written with it can still be read.
    assert ask("GET", f"/schemas/ids/{first}").status == 200
    assert ask("DELETE", f"/subjects/{subject}", permanent="true").body == [1, 2]
    assert ask("DELETE", f"/subjects/{subject}", permanent="true").error == 40401
    assert subject not in ask("GET", "/subjects", deleted="true").body


def test_a_version_is_deleted_softly_and_then_for_good(ask, subject):
    unique = record("ms", name=f"R{abs(hash(subject))}")
    schema_id = ask.register(subject, unique).body["id"]
    ask.register(subject, record("ms", optional("x"), name=unique["name"]))
    assert ask("DELETE", f"/subjects/{subject}/versions/1").body == 1
    assert ask("DELETE", f"/subjects/{subject}/versions/1").error == 40406
    assert ask("GET", f"/subjects/{subject}/versions").body == [2]
    assert ask("GET", f"/subjects/{subject}/versions", deletedOnly="true").body == [1]
    assert ask("GET", f"/subjects/{subject}/versions/1", deleted="true").body["deleted"] is True
    assert ask("GET", f"/schemas/ids/{schema_id}").status == 200
    assert ask("DELETE", f"/subjects/{subject}/versions/1", permanent="true").body == 1
    assert ask("GET", f"/schemas/ids/{schema_id}").error == 40403
    assert ask("DELETE", f"/subjects/{subject}/versions/latest").body == 2


def test_a_deleted_schema_that_comes_back_has_its_id_and_a_new_version(ask, subject):
    schema_id = ask.register(subject, ONE).body["id"]
    ask("DELETE", f"/subjects/{subject}")
    again = ask.register(subject, ONE).body
    assert (again["id"], again["version"]) == (schema_id, 2)
    assert ask("GET", f"/subjects/{subject}/versions", deleted="true").body == [2]


def test_references_are_resolved_listed_and_protected(ask, subject):
    user = record("number", name="User")
    ask.register(f"{subject}-user", user)
    click = record({"name": "user", "type": "User"})
    reference = {"name": "User", "subject": f"{subject}-user", "version": 1}
    assert ask.register(subject, click).error == 42201
    registered = ask.register(subject, click, references=[reference]).body
    assert ask("GET", f"/subjects/{subject}/versions/1").body["references"] == [reference]
    assert ask("GET", f"/schemas/ids/{registered['id']}").body["references"] == [reference]
    used = f"/subjects/{subject}-user/versions/1"
    assert ask("GET", f"{used}/referencedby").body == [registered["id"]]
    assert ask("DELETE", used).error == 42206
    assert ask("DELETE", f"/subjects/{subject}-user").error == 42206
    ask("DELETE", f"/subjects/{subject}")
    ask("DELETE", f"/subjects/{subject}", permanent="true")
    assert ask("DELETE", used).body == 1


def test_lists_are_cut_into_pages(ask, subject):
    for number in range(4):
        ask.register(f"{subject}-{number}", ONE)
    names = [f"{subject}-{number}" for number in range(4)]
    for prefix in (subject, f":*:{subject}", f":.:{subject}"):
        assert ask("GET", "/subjects", subjectPrefix=prefix).body == names
    assert ask("GET", "/subjects", subjectPrefix=subject, offset=1, limit=2).body == names[1:3]


def test_json_schema_and_protobuf_are_registered_by_their_type(ask, subject):
    proto = 'syntax = "proto3"; message Click { int32 ms = 1; }'
    registered = ask.register(f"{subject}-proto", proto, schemaType="PROTOBUF").body
    shown = ask("GET", f"/schemas/ids/{registered['id']}").body
    assert shown["schemaType"] == "PROTOBUF"
    serialized = ask("GET", f"/schemas/ids/{registered['id']}", format="serialized").body["schema"]
    # The descriptor is the same schema, in the form that Python's serializer sends.
    again = ask.register(f"{subject}-proto", serialized, schemaType="PROTOBUF").body
    assert again["id"] == registered["id"]
    path = f"/subjects/{subject}-proto/versions/1"
    assert ask("GET", path, format="serialized").body["schema"] == serialized
    schema = {"type": "object", "properties": {"ms": {"type": "integer"}}}
    assert ask.register(f"{subject}-json", schema, schemaType="JSON").status == 200
    assert ask("GET", f"/subjects/{subject}-json/versions/1").body["schemaType"] == "JSON"


def user_of(subject, version):
    return [{"name": "User", "subject": subject, "version": version}]


USER = record("age", name="User")
VISIT = record({"name": "by", "type": "User"}, name="Visit")


def test_a_reference_to_the_latest_version_is_stored_with_its_number(ask, subject):
    user = f"{subject}-user"
    for schema in (USER, record("age", optional("size"), name="User")):
        ask.register(user, schema)
    first = ask.register(subject, VISIT, references=user_of(user, -1)).body
    path = f"/subjects/{subject}/versions/1"
    assert ask("GET", path).body["references"] == user_of(user, 2)
    # The same schema, until there is a newer version to refer to.
    for version in (-1, 2):
        assert ask.register(subject, VISIT, references=user_of(user, version)).body == first
    body = {"schema": json.dumps(VISIT), "references": user_of(user, -1)}
    assert ask("POST", f"/subjects/{subject}", body).body["version"] == 1
    assert ask("POST", f"/compatibility{path}", body).body == {"is_compatible": True}
    ask.register(user, record("age", optional("size"), optional("mail"), name="User"))
    second = ask.register(subject, VISIT, references=user_of(user, -1)).body
    assert second["version"] == 2
    assert ask("GET", f"/subjects/{subject}/versions/2").body["references"] == user_of(user, 3)


def test_a_new_schema_cannot_refer_to_a_deleted_version(ask, subject):
    user = f"{subject}-user"
    ask.register(user, USER)
    ask.register(user, record("age", optional("size"), name="User"))
    ask("DELETE", f"/subjects/{user}/versions/1")
    for path in (f"/subjects/{subject}/versions", f"/compatibility/subjects/{subject}/versions"):
        body = {"schema": json.dumps(VISIT), "references": user_of(user, 1)}
        refused = ask("POST", path, body)
        assert refused.error == 42201
        message = f'No schema reference found for subject "{user}" and version 1'
        assert refused.body["message"] == message
    ask("DELETE", f"/subjects/{user}")
    assert ask.register(subject, VISIT, references=user_of(user, -1)).error == 42201
    assert subject not in ask("GET", "/subjects").body


def test_common_errors_have_confluents_texts(ask, subject):
    user = f"{subject}-user"
    ask.register(user, USER)
    ask.register(subject, VISIT, references=user_of(user, 1))
    config, mode = f"/config/{subject}", f"/mode/{subject}"
    one = f"/subjects/{subject}/versions/1"
    texts = [
        ask(*request).body["message"]
        for request in (
            ("GET", "/subjects/nobody/versions"),
            ("GET", f"/subjects/{subject}/versions/7"),
            ("GET", f"/subjects/{subject}/versions/x"),
            ("GET", "/schemas/ids/999999"),
            ("GET", config),
            ("GET", mode),
            ("PUT", config, {"compatibility": "x"}),
            ("DELETE", f"/subjects/{user}/versions/1"),
            ("DELETE", one + "?permanent=true"),
        )
    ]
    ask("DELETE", one)
    texts.append(ask("DELETE", one).body["message"])
    assert texts == [
        "Subject 'nobody' not found.",
        "Version 7 not found.",
        "The specified version 'x' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"',
        "Schema 999999 not found",
        f"Subject '{subject}' does not have subject-level compatibility configured",
        f"Subject '{subject}' does not have subject-level mode configured",
        "Invalid compatibility level. Valid values are none, backward, forward, full, "
        "backward_transitive, forward_transitive, and full_transitive",
        "One or more references exist to the schema "
        f"{{magic=1,keytype=SCHEMA,subject={user},version=1}}.",
        f"Subject '{subject}' Version 1 was not deleted first before being permanently deleted",
        f"Subject '{subject}' Version 1 was soft deleted.Set permanent=true to delete permanently",
    ]
