"""Kafka's own message definitions, JSON in its client library, must say the same as ours."""

import json
import os
import re
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from strom.wire.kafka.messages import REQUESTS, RESPONSES
from strom.wire.kafka.schema import (
    FRESH,
    NO_UUID,
    ArrayOf,
    Request,
    Scalar,
    Struct,
    Versions,
    parse_versions,
)

pytestmark = pytest.mark.oracle

EVERY_MESSAGE = [*REQUESTS.values(), *RESPONSES.values()]
REPOSITORY = Path(__file__).parents[4]
EMPTY = {"string": "", "bytes": b"", "bool": False, "uuid": NO_UUID, "records": None}


@cache
def client_library() -> Path | None:
    home = Path(os.environ.get("STROM_KAFKA_HOME", REPOSITORY / ".kafka"))
    return next(iter(sorted((home / "libs").glob("kafka-clients-*.jar"))), None)


def definition(name: str) -> Any:
    library = client_library()
    if library is None:
        pytest.skip("there is no kafka-clients jar; `make kafka` fetches it")
    with zipfile.ZipFile(library) as jar:
        text = jar.read(f"common/message/{name}.json").decode()
    return json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def kafka_default(field: Any) -> Any:
    default, kind = field.get("default"), field["type"]
    if default == "null":
        return None
    if kind[0].isupper():
        return None if "tag" in field else FRESH
    if kind.startswith("[]"):
        return FRESH
    if default is None:
        return EMPTY.get(kind, 0)
    if kind == "bool":
        return str(default).lower() == "true"
    return int(str(default), 0) if kind.startswith("int") else default


def common_part(one: Versions, other: Versions) -> Versions:
    return Versions(max(one.first, other.first), min(one.last, other.last))


def kafka_fields(
    fields: Any, structs: Any, version: int, within: Versions
) -> list[tuple[Any, ...]]:
    """The fields of a version, in the form of `our_fields`."""
    described = []
    for field in fields:
        versions = parse_versions(field["versions"])
        if version not in versions:
            continue
        element = field["type"].removeprefix("[]")
        inner = None
        if element[0].isupper():
            inside = field.get("fields") or structs[element]
            inner = kafka_fields(inside, structs, version, common_part(versions, within))
        described.append(
            (
                snake_case(field["name"]),
                field["type"] if inner is None else field["type"].replace(element, "struct"),
                version in parse_versions(field.get("nullableVersions", "none")),
                kafka_default(field),
                field.get("tag"),
                common_part(versions, within) == within or field.get("ignorable", False),
                inner,
            )
        )
    return described


def our_fields(cls: type[Struct], version: int, within: Versions) -> list[tuple[Any, ...]]:
    """Name, type, nullable, default, tag, droppable where it is missing, and fields inside."""
    described = []
    for field in cls.SCHEMA.fields:
        if version not in field.versions:
            continue
        array = isinstance(field.type, ArrayOf)
        element = field.type.element if isinstance(field.type, ArrayOf) else field.type
        inner = None
        if not isinstance(element, Scalar):
            inner = our_fields(element, version, common_part(field.versions, within))
        described.append(
            (
                field.name,
                ("[]" if array else "") + type_name(element),
                version in field.nullable,
                field.default,
                field.tag,
                common_part(field.versions, within) == within or field.ignorable,
                inner,
            )
        )
    return described


def type_name(element: Scalar | type[Struct]) -> str:
    if not isinstance(element, Scalar):
        return "struct"
    return "bool" if element is Scalar.BOOLEAN else element.name.lower()


@pytest.mark.parametrize("cls", EVERY_MESSAGE)
def test_the_versions_are_kafkas(cls):
    theirs, ours = definition(cls.__name__), cls.SCHEMA
    assert ours.api_key == theirs["apiKey"]
    assert ours.versions == parse_versions(theirs["validVersions"])
    unstable = 1 if theirs.get("latestVersionUnstable") else 0
    if issubclass(cls, Request):
        assert ours.stable == ours.versions._replace(last=ours.versions.last - unstable)
    assert ours.flexible == parse_versions(theirs["flexibleVersions"])


@pytest.mark.parametrize("cls", EVERY_MESSAGE)
def test_the_fields_of_every_version_are_kafkas(cls):
    theirs = definition(cls.__name__)
    structs = {struct["name"]: struct["fields"] for struct in theirs.get("commonStructs", [])}
    always = cls.SCHEMA.versions
    for version in range(always.first, always.last + 1):
        expected = kafka_fields(theirs["fields"], structs, version, always)
        assert our_fields(cls, version, always) == expected, f"version {version}"
