"""The records of `_schemas` are those of Confluent's registry."""

import json

import pytest

from strom.registry.formats.schema import Reference, SchemaType
from strom.registry.records import (
    ConfigSet,
    Content,
    HighestId,
    ModeSet,
    SchemaTombstone,
    SchemaVersion,
    SubjectCleared,
    SubjectDeleted,
    TopicRecord,
    decode,
    encode,
)

ENTRIES_AND_KEYS = [
    (
        SchemaVersion("clicks-value", 2, 7, Content(SchemaType.AVRO, '"string"')),
        b'{"keytype":"SCHEMA","subject":"clicks-value","version":2,"magic":1}',
    ),
    (
        SchemaVersion(
            "ü",
            1,
            8,
            Content(
                SchemaType.PROTOBUF,
                'syntax = "proto3";',
                (Reference("a.proto", "a", 3),),
                '{"metadata": {"properties": {"owner": "shop"}}}',
            ),
            deleted=True,
        ),
        '{"keytype":"SCHEMA","subject":"ü","version":1,"magic":1}'.encode(),
    ),
    (SchemaTombstone("s", 1), b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'),
    (SubjectDeleted("s", 4), b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}'),
    (SubjectCleared("s"), b'{"keytype":"CLEAR_SUBJECT","subject":"s","magic":0}'),
    (SubjectCleared(None), b'{"keytype":"CLEAR_SUBJECT","magic":0}'),
    (
        ConfigSet("s", {"compatibilityLevel": "FULL"}),
        b'{"keytype":"CONFIG","subject":"s","magic":0}',
    ),
    (ConfigSet(None, {"compatibilityLevel": "NONE"}), b'{"keytype":"CONFIG","magic":0}'),
    (ConfigSet("s", None), b'{"keytype":"CONFIG","subject":"s","magic":0}'),
    (ModeSet("s", "READONLY"), b'{"keytype":"MODE","subject":"s","magic":0}'),
    (ModeSet(None, None), b'{"keytype":"MODE","magic":0}'),
    (HighestId(9), b'{"keytype":"NOOP","magic":0}'),
]


@pytest.mark.parametrize(("entry", "key"), ENTRIES_AND_KEYS, ids=lambda one: type(one).__name__)
def test_an_entry_has_confluents_key_and_comes_back(entry, key):
    record = encode(entry)
    assert record.key == key
    assert decode(record) == entry


def test_the_value_of_a_schema_is_what_confluents_registry_reads():
    entry = SchemaVersion("s", 1, 3, Content(SchemaType.JSON, "{}", (Reference("n", "t", 2),)))
    assert json.loads(encode(entry).value) == {
        "subject": "s",
        "version": 1,
        "id": 3,
        "schemaType": "JSON",
        "references": [{"name": "n", "subject": "t", "version": 2}],
        "schema": "{}",
        "deleted": False,
    }


def test_a_schema_as_old_and_new_registries_write_it_is_read():
    key = b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":0}'
    value = (
        b'{"subject":"s","version":1,"id":4,"md5":"qqq=","schema":"\\"int\\"","deleted":false,'
        b'"ts":12,"offset":3}'
    )
    assert decode(TopicRecord(key, value)) == SchemaVersion(
        "s", 1, 4, Content(SchemaType.AVRO, '"int"')
    )
    config = TopicRecord(
        b'{"keytype":"CONFIG","subject":null,"magic":0}', b'{"compatibilityLevel":"FULL"}'
    )
    assert decode(config) == ConfigSet(None, {"compatibilityLevel": "FULL"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"no json", b"{}"),
        (b"[]", b"{}"),
        (b"{}", b"{}"),
        (b'{"keytype":"CONTEXT","tenant":"default","context":".x","magic":0}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"s","magic":1}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}', b'{"id":1}'),
        (
            b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
            b'{"id":1,"schema":"","schemaType":"X"}',
        ),
        (b'{"keytype":"MODE","magic":0}', b"[]"),
        (b'{"keytype":"NOOP","magic":0}', None),
        (b"\xff", b"\xff"),
    ],
)
def test_what_is_not_understood_is_left_alone(key, value):
    assert decode(TopicRecord(key, value)) is None
