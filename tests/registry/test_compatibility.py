"""Levels of compatibility: who has to read whose data, and how far back."""

import json

import pytest

from strom.registry.compatibility import Level, check
from strom.registry.formats import Kind, parse
from tests.registry.formats.avro_cases import field, record


def avro(*fields):
    return parse(Kind.AVRO, json.dumps(record(*fields)))


EMPTY = avro()
OPTIONAL = avro(field("a", "int", default=0))
REQUIRED = avro(field("a", "int"))


@pytest.mark.parametrize(
    ("level", "new", "earlier", "allowed"),
    [
        (Level.NONE, REQUIRED, [EMPTY], True),
        (Level.BACKWARD, OPTIONAL, [EMPTY], True),
        (Level.BACKWARD, REQUIRED, [EMPTY], False),
        (Level.BACKWARD, EMPTY, [REQUIRED], True),
        (Level.BACKWARD, REQUIRED, [EMPTY, OPTIONAL], True),
        (Level.BACKWARD_TRANSITIVE, REQUIRED, [EMPTY, OPTIONAL], False),
        (Level.FORWARD, REQUIRED, [EMPTY], True),
        (Level.FORWARD, EMPTY, [REQUIRED], False),
        (Level.FORWARD, EMPTY, [REQUIRED, OPTIONAL], True),
        (Level.FORWARD_TRANSITIVE, EMPTY, [REQUIRED, OPTIONAL], False),
        (Level.FULL, OPTIONAL, [EMPTY], True),
        (Level.FULL, REQUIRED, [EMPTY], False),
        (Level.FULL, EMPTY, [REQUIRED], False),
        (Level.FULL, REQUIRED, [EMPTY, OPTIONAL], True),
        (Level.FULL_TRANSITIVE, REQUIRED, [EMPTY, OPTIONAL], False),
        (Level.FULL_TRANSITIVE, OPTIONAL, [EMPTY, REQUIRED], True),
    ],
)
def test_a_level_says_who_has_to_read_whose_data(level, new, earlier, allowed):
    assert (check(level, new, earlier) == []) is allowed


@pytest.mark.parametrize("level", Level)
def test_anything_may_be_first(level):
    assert check(level, REQUIRED, []) == []


def test_a_message_names_the_version_and_the_direction():
    missing = (
        "READER_FIELD_MISSING_DEFAULT_VALUE at /fields/0: the reader's field a has no default, "
        "and the writer has no such field"
    )
    assert check(Level.FULL, REQUIRED, [OPTIONAL, EMPTY], [3, 7]) == [
        f"The new schema cannot read data of version 7: {missing}"
    ]
    assert check(Level.FORWARD_TRANSITIVE, EMPTY, [REQUIRED, REQUIRED]) == [
        f"Version 2 cannot read data of the new schema: {missing}",
        f"Version 1 cannot read data of the new schema: {missing}",
    ]


def test_another_language_cannot_follow():
    other = parse(Kind.JSON, "{}")
    assert check(Level.BACKWARD, other, [EMPTY]) == [
        "The new schema cannot read data of version 1: "
        "The reader is a schema of type JSON, the writer one of AVRO."
    ]
    assert check(Level.NONE, other, [EMPTY]) == []


def test_levels_are_spelled_as_clients_spell_them():
    assert Level("FULL_TRANSITIVE") is Level.FULL_TRANSITIVE
    assert {str(level) for level in Level} == {
        "NONE",
        *(f"{way}{far}" for way in ("BACKWARD", "FORWARD", "FULL") for far in ("", "_TRANSITIVE")),
    }
