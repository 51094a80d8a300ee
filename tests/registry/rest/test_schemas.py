"""/schemas, and what else can be asked without a subject."""

import json

from tests.registry.conftest import optional, record


def test_the_schema_of_an_id_is_answered_from_bytes_that_lie_ready(ask, strom_registry, subject):
    schema_id = ask.register(subject, record(subject.replace("-", "_"))).body["id"]
    first = ask("GET", f"/schemas/ids/{schema_id}")
    assert schema_id in strom_registry.registry.rendered
    assert ask("GET", f"/schemas/ids/{schema_id}") == first
    assert json.loads(first.body["schema"]) == record(subject.replace("-", "_"))
    assert first.content_type == "application/vnd.schemaregistry.v1+json"
    assert ask("GET", f"/schemas/ids/{schema_id}/schema").body == json.loads(first.body["schema"])


def test_an_id_has_its_versions_and_the_highest_id(ask, subject):
    schema_id = ask.register(subject, record("a")).body["id"]
    versions = ask("GET", f"/schemas/ids/{schema_id}/versions").body
    assert {"subject": subject, "version": 1} in versions
    only = ask("GET", f"/schemas/ids/{schema_id}/versions", subject=subject).body
    assert only == [{"subject": subject, "version": 1}]
    assert ask("GET", f"/schemas/ids/{schema_id}", fetchMaxId="true").body["maxId"] >= schema_id


def test_all_schemas_are_listed_or_the_latest_of_each_subject(ask, subject):
    ask.register(subject, record("a"))
    ask.register(subject, record("a", optional("b")))
    every = ask("GET", "/schemas", subjectPrefix=subject).body
    assert [one["version"] for one in every] == [1, 2]
    latest = ask("GET", "/schemas", subjectPrefix=subject, latestOnly="true").body
    assert [one["version"] for one in latest] == [2]


def test_an_id_that_another_instance_has_just_given_is_found(
    ask, strom_registry, strom_server, subject
):
    from strom.registry.client import RegistryClient
    from strom.registry.server import RegistryServer

    with RegistryServer(strom_server.bootstrap_servers) as other:
        with RegistryClient(other.url) as client:
            schema_id = client.register(subject, json.dumps(record(subject.replace("-", "_"))))
        assert ask("GET", f"/schemas/ids/{schema_id}").status == 200


def test_small_questions_are_answered(ask):
    assert ask("GET", "/").body == {}
    assert ask("GET", "/health").body["status"] == "healthy"
    assert ask("GET", "/contexts").body == ["."]
    assert sorted(ask("GET", "/schemas/types").body) == ["AVRO", "JSON", "PROTOBUF"]
    assert ask("GET", "/subjects/").status == 200
