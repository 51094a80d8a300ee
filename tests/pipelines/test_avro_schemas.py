"""Avro schemas as columns, and what is refused. No Java, no registry."""

import json

import pytest

from strom.model.errors import UserError
from strom.pipelines import Stream, View, count
from strom.pipelines.definitions.avro import avro_columns
from strom.pipelines.project import Project
from strom.pipelines.schemas import with_schemas
from strom.pipelines.settings import ProjectSettings

MOMENT = {"type": "long", "logicalType": "timestamp-millis"}


def record(*fields, **more):
    listed = [{"name": name, "type": kind} for name, kind in fields]
    return json.dumps({"type": "record", "name": "Click", "fields": listed, **more})


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("string", "string"),
        (["null", "long"], "bigint"),
        (["int", "long"], "bigint"),
        (["float", "null", "double"], "double"),
        (["null", "int", "string"], "struct<member0:int,member1:string>"),
        (MOMENT, "timestamp"),
        ({"type": "int", "logicalType": "date"}, "date"),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, "timestamp_ntz"),
        ({"type": "int", "logicalType": "time-millis"}, "int"),
        ({"type": "string", "logicalType": "uuid"}, "string"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            "decimal(9,2)",
        ),
        ({"type": "enum", "name": "Kind", "symbols": ["A"]}, "string"),
        ({"type": "fixed", "name": "Four", "size": 4}, "binary"),
        ({"type": "array", "items": ["null", "int"]}, "array<int>"),
        ({"type": "map", "values": "double"}, "map<string,double>"),
        (
            {"type": "record", "name": "Place", "fields": [{"name": "x", "type": "float"}]},
            "struct<x:float>",
        ),
    ],
)
def test_types_are_those_that_spark_gives(kind, column):
    assert avro_columns(record(("a", kind))) == {"a": column}


def test_a_type_may_be_used_again_by_its_name():
    kind = {"type": "enum", "name": "Kind", "symbols": ["A"]}
    again = record(("a", kind), ("b", "Kind"), ("c", "shop.Kind"), namespace="shop")
    assert avro_columns(again) == dict.fromkeys("abc", "string")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Stream("t", format="avro", schema="user STRING"), "Avro's JSON, or 'registry'"),
        (lambda: Stream("t", format="avro", schema='"string"'), "must be a record"),
        (lambda: Stream("t", format="avro", schema=record(("a", "Click"))), "is recursive"),
        (lambda: Stream("t", format="avro", schema=record(("a", "Other"))), "is not defined"),
        (lambda: Stream("t", format="avro", schema=record(("a", "int")), time="a"), "a is int"),
        (lambda: Stream("t", schema="a INT", registry="http://x"), "Only Avro streams"),
        (
            lambda: View(
                reads=Stream("t", format="avro", schema=record(("a", "int"))),
                keys=["b"],
                measures={"n": count()},
            ),
            "Unknown column 'b'",
        ),
    ],
)
def test_wrong_avro_is_refused_with_its_place(make, told):
    with pytest.raises(UserError, match=r"test_avro_schemas\.py:\d+: ") as caught:
        make()
    assert told in str(caught.value)


def test_columns_from_a_registry_are_checked_when_it_has_responded(tmp_path):
    stream = Stream("clicks", format="avro", schema="registry", time="at")
    view = View(reads=stream, keys=["page"], measures={"n": count()}, name="n")
    project = Project(tmp_path, ProjectSettings(), {}, {"n": view})
    with pytest.raises(UserError, match=r"test_avro_schemas\.py:\d+: .*strom\.toml"):
        with_schemas(project)
