"""A topic that another registry has written is taken over as it is."""

import json

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from strom.registry.server import RegistryServer
from tests.registry.conftest import Asker, as_text, optional, record

CLICK = record("ms")
# As a registry of Confluent's writes them, over the years; and things that are not known here.
RECORDS = [
    ('{"keytype":"NOOP","magic":0}', None),
    ('{"keytype":"CONFIG","subject":null,"magic":0}', '{"compatibilityLevel":"FORWARD"}'),
    (
        '{"keytype":"SCHEMA","subject":"clicks-value","version":1,"magic":0}',
        json.dumps(
            {"subject": "clicks-value", "version": 1, "id": 21, "schema": json.dumps(CLICK)}
        ),
    ),
    (
        '{"keytype":"SCHEMA","subject":"old-value","version":3,"magic":1}',
        '{"subject":"old-value","version":3,"id":7,"md5":"x","schema":"\\"int\\"","deleted":false}',
    ),
    (
        '{"keytype":"DELETE_SUBJECT","subject":"old-value","magic":0}',
        '{"subject":"old-value","version":3}',
    ),
    ('{"keytype":"CONTEXT","tenant":"default","context":".x","magic":0}', '{"tenant":"default"}'),
    ("damaged", "also damaged"),
    (
        '{"keytype":"SCHEMA","subject":"broken-value","version":1,"magic":1}',
        '{"subject":"broken-value","version":1,"id":22,"schema":"no schema at all","deleted":false}',
    ),
]


def write(servers, topic, records):
    admin = AdminClient({"bootstrap.servers": servers})
    new = NewTopic(topic, 1, config={"cleanup.policy": "compact"})
    admin.create_topics([new])[topic].result()
    producer = Producer({"bootstrap.servers": servers})
    for key, value in records:
        producer.produce(topic, value, key)
    assert producer.flush(20) == 0


def test_what_is_there_counts_and_goes_on(strom_server, topic):
    servers = strom_server.bootstrap_servers
    write(servers, topic, RECORDS)
    with RegistryServer(servers, topic=topic) as server:
        ask = Asker(server.url)
        assert ask("GET", "/subjects").body == ["broken-value", "clicks-value"]
        assert ask("GET", "/subjects", deletedOnly="true").body == ["old-value"]
        assert ask("GET", "/config").body == {"compatibilityLevel": "FORWARD"}
        # The same schema in other words is the same: strom writes less space into it.
        assert ask.register("clicks-value", CLICK).body == {"id": 21, "version": 1}
        newer = ask.register("clicks-value", record("ms", optional("user"))).body
        assert newer == {"id": 23, "version": 2}
        # What cannot be understood is shown as it is, and stands in nobody's way.
        assert ask("GET", "/schemas/ids/22").body == {"schema": "no schema at all"}
        assert ask("DELETE", "/subjects/broken-value").body == [1]
        ask.close()


def stored(subject, version, schema_id, text, **more):
    key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
    value = {"subject": subject, "version": version, "id": schema_id, "schema": text, **more}
    return json.dumps(key), json.dumps({**value, "deleted": False})


def proto(body):
    return f'syntax = "proto3";\npackage shop;\n\n{body}\n'


WRONG_DEFAULT = record({"name": "ms", "type": "int", "default": "none"})
ODD_NAME = {**record("ms"), "name": "click-event", "namespace": "my-shop"}
UNKNOWN_TYPE = proto('import "gone.proto";\n\nmessage Order {\n  other.Gone it = 1;\n}')
UNKNOWN_OPTION = proto("message Order {\n  string id = 1 [(acme.key) = true];\n}")
NO_DOCUMENT = {"type": "object", "properties": {"a": {"$ref": "gone.json"}}}
ODD = {
    "default": ("AVRO", json.dumps(WRONG_DEFAULT)),
    "name": ("AVRO", json.dumps(ODD_NAME)),
    "type": ("PROTOBUF", UNKNOWN_TYPE),
    "option": ("PROTOBUF", UNKNOWN_OPTION),
    "document": ("JSON", json.dumps(NO_DOCUMENT)),
    "nothing": ("AVRO", "no schema at all"),
}
"""Stored versions that are refused as new ones, except for the option, by subject."""
NEXT = {
    "default": (record({"name": "ms", "type": "int", "default": 0}), record("ms", "user")),
    "name": (
        {
            **ODD_NAME,
            "name": "click_event",
            "namespace": "shop",
            "aliases": ["my-shop.click-event"],
        },
        record("other", name="Other"),
    ),
    "type": (
        UNKNOWN_TYPE.replace("other.Gone it = 1", "string id = 2"),
        UNKNOWN_TYPE.replace("other.Gone it", "repeated int32 it"),
    ),
    "option": (
        UNKNOWN_OPTION.replace("= true", "= false"),
        UNKNOWN_OPTION.replace("string id", "int32 id"),
    ),
    "document": (
        {"type": "object", "properties": {"a": {}}},
        {"type": "string"},
    ),
}
"""A compatible next version, and an incompatible one."""


@pytest.fixture(scope="module")
def odd(strom_server):
    """A registry on a topic with such versions."""
    topic = "_odd_schemas"
    records = [
        stored(subject, 1, number, text, schemaType=kind)
        for number, (subject, (kind, text)) in enumerate(ODD.items(), 1)
    ]
    write(strom_server.bootstrap_servers, topic, records)
    with RegistryServer(strom_server.bootstrap_servers, topic=topic) as server:
        ask = Asker(server.url)
        yield ask
        ask.close()


@pytest.mark.parametrize("subject", ODD)
def test_a_stored_text_has_its_id_whether_it_is_valid_or_not(odd, subject):
    kind, text = ODD[subject]
    number = list(ODD).index(subject) + 1
    body = {"schema": text, "schemaType": kind}
    assert odd("POST", f"/subjects/{subject}/versions", body).body == {"id": number, "version": 1}
    found = odd("POST", f"/subjects/{subject}", body)
    assert (found.body["id"], found.body["version"]) == (number, 1)


@pytest.mark.parametrize("subject", ["default", "name", "type", "document"])
def test_what_is_stored_is_refused_as_a_new_schema(odd, subject):
    kind, text = ODD[subject]
    assert odd.register("new-value", text, schemaType=kind).error == 42201


@pytest.mark.parametrize("subject", ["default", "name", "option"])
def test_a_stored_schema_is_found_in_another_layout(odd, subject):
    kind, text = ODD[subject]
    text = (
        text.replace("\n  ", "\n") if kind == "PROTOBUF" else json.dumps(json.loads(text), indent=1)
    )
    assert odd("POST", f"/subjects/{subject}", {"schema": text, "schemaType": kind}).status == 200


@pytest.mark.parametrize("subject", NEXT)
def test_a_new_version_is_compared_with_a_stored_one(odd, subject):
    compatible, incompatible = NEXT[subject]
    kind = ODD[subject][0]
    body = {"schema": as_text(incompatible), "schemaType": kind}
    path = f"/compatibility/subjects/{subject}/versions/1"
    judged = odd("POST", path, body, verbose="true").body
    assert not judged["is_compatible"]
    assert not any("parsed" in reason for reason in judged["messages"])
    answer = odd.register(subject, compatible, schemaType=kind)
    assert answer.body == {"id": answer.body["id"], "version": 2}


def test_a_version_that_cannot_be_parsed_is_no_obstacle_for_ever(odd):
    new = json.dumps(record("ms"))
    refused = odd.register("nothing", new)
    assert refused.error == 409  # compatible or not: it cannot be known
    assert "version 1 cannot be checked" in refused.body["message"]
    assert odd("POST", "/subjects/nothing", {"schema": new}).error == 40403
    odd("PUT", "/config/nothing", {"compatibility": "NONE"})
    assert odd.register("nothing", new).body["version"] == 2


def test_a_new_schema_may_refer_to_a_stored_one(odd):
    reference = {"name": "my-shop.click-event", "subject": "name", "version": 1}
    text = json.dumps(record({"name": "of", "type": "my-shop.click-event"}, name="Visit"))
    assert odd.register("visits", text, references=[reference]).body["version"] == 1


MAPS_LAST = """syntax = "proto3";
message A {
  optional string opt = 9;
  map<string, int32> m = 5;
}
"""
MAPS_DECLARED = 'syntax="proto3"; message A { map<string,int32> m = 5; optional string opt = 9; }'


def test_a_schema_is_found_whose_maps_an_earlier_version_moved(strom_server, topic):
    """The text is as it was stored; the client still sends the one that it always sent."""
    servers = strom_server.bootstrap_servers
    other = MAPS_LAST.replace("message", "\nmessage")  # with the blank line of today's layout
    records = [
        stored("earlier", 1, 1, MAPS_LAST, schemaType="PROTOBUF"),
        stored("today", 1, 2, other, schemaType="PROTOBUF"),
    ]
    write(servers, topic, records)
    with RegistryServer(servers, topic=topic) as server:
        ask = Asker(server.url)
        sent = {"schema": MAPS_DECLARED, "schemaType": "PROTOBUF"}
        assert ask("POST", "/subjects/earlier", sent).body["id"] == 1
        known = ask("POST", "/subjects/earlier/versions", sent).body
        assert known == {"id": 1, "version": 1}
        # As in Confluent's registry, the order of fields makes a schema another one.
        assert ask("POST", "/subjects/today", sent).error == 40403
        changed = {**sent, "schema": MAPS_DECLARED.replace("opt =", "other =")}
        assert ask("POST", "/subjects/earlier", changed).error == 40403
        ask.close()
