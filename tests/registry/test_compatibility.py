"""Levels of compatibility: who has to read whose data, and how far back."""

import json

import pytest

from strom.registry.compatibility import CompatibilityLevel, check
from strom.registry.formats import SchemaType, parse
from tests.registry.formats.avro_cases import field, record


def avro(*fields):
    return parse(SchemaType.AVRO, json.dumps(record(*fields)))


EMPTY = avro()
OPTIONAL = avro(field("a", "int", default=0))
REQUIRED = avro(field("a", "int"))


@pytest.mark.parametrize(
    ("level", "new", "earlier", "allowed"),
    [
        (CompatibilityLevel.NONE, REQUIRED, [EMPTY], True),
        (CompatibilityLevel.BACKWARD, OPTIONAL, [EMPTY], True),
        (CompatibilityLevel.BACKWARD, REQUIRED, [EMPTY], False),
        (CompatibilityLevel.BACKWARD, EMPTY, [REQUIRED], True),
        (CompatibilityLevel.BACKWARD, REQUIRED, [EMPTY, OPTIONAL], True),
        (CompatibilityLevel.BACKWARD_TRANSITIVE, REQUIRED, [EMPTY, OPTIONAL], False),
        (CompatibilityLevel.FORWARD, REQUIRED, [EMPTY], True),
        (CompatibilityLevel.FORWARD, EMPTY, [REQUIRED], False),
        (CompatibilityLevel.FORWARD, EMPTY, [REQUIRED, OPTIONAL], True),
        (CompatibilityLevel.FORWARD_TRANSITIVE, EMPTY, [REQUIRED, OPTIONAL], False),
        (CompatibilityLevel.FULL, OPTIONAL, [EMPTY], True),
        (CompatibilityLevel.FULL, REQUIRED, [EMPTY], False),
        (CompatibilityLevel.FULL, EMPTY, [REQUIRED], False),
        (CompatibilityLevel.FULL, REQUIRED, [EMPTY, OPTIONAL], True),
        (CompatibilityLevel.FULL_TRANSITIVE, REQUIRED, [EMPTY, OPTIONAL], False),
        (CompatibilityLevel.FULL_TRANSITIVE, OPTIONAL, [EMPTY, REQUIRED], True),
    ],
)
def test_a_level_says_who_has_to_read_whose_data(level, new, earlier, allowed):
    assert (check(level, new, earlier) == []) is allowed


@pytest.mark.parametrize("level", CompatibilityLevel)
def test_anything_may_be_first(level):
    assert check(level, REQUIRED, []) == []


def test_a_message_names_the_version_and_the_direction():
    missing = (
        "READER_FIELD_MISSING_DEFAULT_VALUE at /fields/0: the reader's field a has no default, "
        "and the writer lacks it"
    )
    assert check(CompatibilityLevel.FULL, REQUIRED, [OPTIONAL, EMPTY], [3, 7]) == [
        f"The new schema cannot read data of version 7: {missing}"
    ]
    assert check(CompatibilityLevel.FORWARD_TRANSITIVE, EMPTY, [REQUIRED, REQUIRED]) == [
        f"Version 2 cannot read data of the new schema: {missing}",
        f"Version 1 cannot read data of the new schema: {missing}",
    ]


def test_another_language_cannot_follow():
    other = parse(SchemaType.JSON, "{}")
    assert check(CompatibilityLevel.BACKWARD, other, [EMPTY]) == [
        "The new schema cannot read data of version 1: "
        "The reader's schema is of type JSON, the writer's of type AVRO."
    ]
    assert check(CompatibilityLevel.NONE, other, [EMPTY]) == []


def test_levels_are_spelled_as_clients_spell_them():
    assert CompatibilityLevel("FULL_TRANSITIVE") is CompatibilityLevel.FULL_TRANSITIVE
    assert {str(level) for level in CompatibilityLevel} == {
        "NONE",
        *(f"{way}{far}" for way in ("BACKWARD", "FORWARD", "FULL") for far in ("", "_TRANSITIVE")),
    }
