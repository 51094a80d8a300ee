"""Pairs of JSON Schemas, and whether the first accepts all that the second does.

A text says what changed from the writer's schema to the reader's.
"""

from typing import Any, NamedTuple

Json = Any


class Case(NamedTuple):
    what: str
    reader: Json
    writer: Json
    readable: bool
    rule: str = ""
    """What the reason begins with, if it is not readable."""


def thing(properties: Json, **more: Json) -> Json:
    return {"type": "object", "properties": properties, **more}


def closed(properties: Json, **more: Json) -> Json:
    return thing(properties, additionalProperties=False, **more)


INT, TEXT, NUMBER = {"type": "integer"}, {"type": "string"}, {"type": "number"}


def limits(kind: str, low: str, high: str) -> list[Case]:
    def schema(**words: Json) -> Json:
        return {"type": kind, **words}

    return [
        Case(f"{low} added", schema(**{low: 2}), schema(), False),
        Case(f"{low} removed", schema(), schema(**{low: 2}), True),
        Case(f"{low} raised", schema(**{low: 3}), schema(**{low: 2}), False),
        Case(f"{low} lowered", schema(**{low: 1}), schema(**{low: 2}), True),
        Case(f"{high} added", schema(**{high: 2}), schema(), False),
        Case(f"{high} removed", schema(), schema(**{high: 2}), True),
        Case(f"{high} raised", schema(**{high: 3}), schema(**{high: 2}), True),
        Case(f"{high} lowered", schema(**{high: 1}), schema(**{high: 2}), False),
    ]


LIMITS = [
    *limits("string", "minLength", "maxLength"),
    *limits("number", "minimum", "maximum"),
    *limits("integer", "exclusiveMinimum", "exclusiveMaximum"),
    *limits("array", "minItems", "maxItems"),
    *limits("object", "minProperties", "maxProperties"),
]

SCALARS = [
    Case("the same", TEXT, TEXT, True),
    Case("anything to a type", TEXT, {}, False, "TYPE_CHANGED"),
    Case("a type to anything", {}, TEXT, True),
    Case("a type to true", True, TEXT, True),
    Case("nothing to a type", TEXT, False, True),
    Case("a type to nothing", False, TEXT, False, "TYPE_CHANGED"),
    Case("text to number", NUMBER, TEXT, False, "TYPE_CHANGED"),
    Case("integer to number", NUMBER, INT, True),
    Case("number to integer", INT, NUMBER, False, "TYPE_NARROWED"),
    Case("boolean to the same", {"type": "boolean"}, {"type": "boolean"}, True),
    Case("null to boolean", {"type": "boolean"}, {"type": "null"}, False),
    Case("title and description", {**TEXT, "title": "a"}, {**TEXT, "description": "b"}, True),
    Case("pattern added", {**TEXT, "pattern": "^a"}, TEXT, False, "PATTERN_ADDED"),
    Case("pattern removed", TEXT, {**TEXT, "pattern": "^a"}, True),
    Case(
        "pattern changed",
        {**TEXT, "pattern": "a"},
        {**TEXT, "pattern": "^a"},
        False,
        "PATTERN_CHANGED",
    ),
    Case("steps added", {**INT, "multipleOf": 2}, INT, False, "MULTIPLE_OF_ADDED"),
    Case("steps removed", INT, {**INT, "multipleOf": 2}, True),
    Case("steps finer", {**NUMBER, "multipleOf": 0.1}, {**NUMBER, "multipleOf": 0.3}, True),
    Case(
        "steps coarser",
        {**INT, "multipleOf": 4},
        {**INT, "multipleOf": 2},
        False,
        "MULTIPLE_OF_EXPANDED",
    ),
    Case(
        "steps others",
        {**INT, "multipleOf": 3},
        {**INT, "multipleOf": 2},
        False,
        "MULTIPLE_OF_CHANGED",
    ),
    Case("steps written otherwise", {**INT, "multipleOf": 2.0}, {**INT, "multipleOf": 2}, True),
    Case(
        "a type is named where none was",
        {**TEXT, "minLength": 1},
        {"minLength": 1},
        False,
        "TYPE_NARROWED",
    ),
    Case("a type is no longer named", {"minLength": 1}, {**TEXT, "minLength": 1}, True),
    Case("enum grows", {"enum": [1, 2, 3]}, {"enum": [1, 2]}, True),
    Case("enum shrinks", {"enum": [1]}, {"enum": [1, 2]}, False, "ENUM_ARRAY_NARROWED"),
    Case("enum changes", {"enum": [1, 3]}, {"enum": [1, 2]}, False, "ENUM_ARRAY_CHANGED"),
    Case("enum in another order", {"enum": ["b", "a"]}, {"enum": ["a", "b"]}, True),
    Case("1 is 1.0", {"enum": [1.0]}, {"enum": [1]}, True),
    Case("1 is not true", {"enum": [True]}, {"enum": [1]}, False, "ENUM_ARRAY_CHANGED"),
    Case("enum of texts to text", TEXT, {**TEXT, "enum": ["a"]}, True),
    Case("text to enum of texts", {**TEXT, "enum": ["a"]}, TEXT, False),
    Case("const to the same", {"const": {"a": [1]}}, {"const": {"a": [1]}}, True),
    Case("const to another", {"const": 2}, {"const": 1}, False, "ENUM_ARRAY_CHANGED"),
    Case("const removed", {}, {"const": 1}, True),
    Case("not excludes less", {"not": {**INT, "minimum": 5}}, {"not": INT}, True),
    Case(
        "not excludes more",
        {"not": INT},
        {"not": {**INT, "minimum": 5}},
        False,
        "NOT_TYPE_EXTENDED",
    ),
    Case("not the same", {"not": INT}, {"not": INT}, True),
]

OBJECTS = [
    Case("the same properties", thing({"a": INT}), thing({"a": INT}), True),
    Case("property widened", thing({"a": NUMBER}), thing({"a": INT}), True),
    Case("property narrowed", thing({"a": INT}), thing({"a": NUMBER}), False, "TYPE_NARROWED"),
    Case(
        "property added, open",
        thing({"a": INT}),
        thing({}),
        False,
        "OPTIONAL_PROPERTY_ADDED_TO_OPEN",
    ),
    Case("property without a type added, open", thing({"a": {}}), thing({}), True),
    Case("property added, closed", closed({"a": INT}), closed({}), True),
    Case(
        "required property added, closed",
        closed({"a": INT}, required=["a"]),
        closed({}),
        False,
        "REQUIRED_PROPERTY_ADDED_TO_UNOPEN",
    ),
    Case(
        "required property with a default added, closed",
        closed({"a": {**INT, "default": 0}}, required=["a"]),
        closed({}),
        True,
    ),
    Case(
        "required property added, open",
        thing({"a": INT}, required=["a"]),
        thing({}),
        False,
        "REQUIRED_PROPERTY_ADDED_TO_OPEN",
    ),
    Case("property removed, open", thing({}), thing({"a": INT}), True),
    Case(
        "property removed, closed",
        closed({}),
        closed({"a": INT}),
        False,
        "PROPERTY_REMOVED_FROM_CLOSED",
    ),
    Case("property removed that could not be, closed", closed({}), closed({"a": False}), True),
    Case("content model opened", thing({"a": INT}), closed({"a": INT}), True),
    Case(
        "content model closed",
        closed({"a": INT}),
        thing({"a": INT}),
        False,
        "ADDITIONAL_PROPERTIES_REMOVED",
    ),
    Case(
        "content model partly closed",
        thing({}, additionalProperties=INT),
        thing({}),
        False,
        "ADDITIONAL_PROPERTIES_NARROWED",
    ),
    Case("content model partly opened", thing({}, additionalProperties=INT), closed({}), True),
    Case(
        "other properties widened",
        thing({}, additionalProperties=NUMBER),
        thing({}, additionalProperties=INT),
        True,
    ),
    Case(
        "other properties narrowed",
        thing({}, additionalProperties=INT),
        thing({}, additionalProperties=NUMBER),
        False,
        "TYPE_NARROWED",
    ),
    Case("other properties: {} is true", thing({}, additionalProperties={}), thing({}), True),
    Case(
        "property added that others cover",
        thing({"a": NUMBER}, additionalProperties=INT),
        thing({}, additionalProperties=INT),
        True,
    ),
    Case(
        "property added that others do not cover",
        thing({"a": TEXT}, additionalProperties=INT),
        thing({}, additionalProperties=INT),
        False,
        "TYPE_CHANGED",
    ),
    Case(
        "property removed that others cover",
        thing({}, additionalProperties=NUMBER),
        closed({"a": INT}),
        True,
    ),
    Case(
        "property removed that others do not cover",
        thing({}, additionalProperties=TEXT),
        closed({"a": INT}),
        False,
        "TYPE_CHANGED",
    ),
    Case(
        "required added",
        thing({"a": INT}, required=["a"]),
        thing({"a": INT}),
        False,
        "REQUIRED_ATTRIBUTE_ADDED",
    ),
    Case("required removed", thing({"a": INT}), thing({"a": INT}, required=["a"]), True),
    Case(
        "required added to one with a default",
        thing({"a": {**INT, "default": 1}}, required=["a"]),
        thing({"a": INT}),
        True,
    ),
    Case(
        "required of none of the properties",
        thing({}, required=["z"]),
        thing({}),
        False,
        "REQUIRED_ATTRIBUTE_ADDED",
    ),
    Case(
        "property removed that a pattern covers",
        closed({}, patternProperties={"^n_": NUMBER}),
        closed({"n_a": INT}),
        True,
    ),
    Case(
        "property removed that a pattern does not cover",
        closed({}, patternProperties={"^n_": TEXT}),
        closed({"n_a": INT}),
        False,
    ),
    Case(
        "pattern added, open",
        thing({}, patternProperties={"^n_": INT}),
        thing({}),
        False,
        "PATTERN_PROPERTY_ADDED",
    ),
    Case("pattern removed, open", thing({}), thing({}, patternProperties={"^n_": INT}), True),
    Case(
        "pattern removed, closed",
        closed({}),
        closed({}, patternProperties={"^n_": INT}),
        False,
        "TYPE_CHANGED",
    ),
    Case(
        "pattern widened",
        thing({}, patternProperties={"^n_": NUMBER}),
        thing({}, patternProperties={"^n_": INT}),
        True,
    ),
    Case(
        "names restricted",
        thing({}, propertyNames={"maxLength": 3}),
        thing({}),
        False,
        "PROPERTY_NAMES_NARROWED",
    ),
    Case("names no longer restricted", thing({}), thing({}, propertyNames={"maxLength": 3}), True),
    Case("dependency added", {"dependencies": {"a": ["b"]}}, {"type": "object"}, False),
    Case("dependency removed", thing({}), thing({}, dependencies={"a": ["b"]}), True),
    Case(
        "dependency shortened",
        thing({}, dependencies={"a": ["b"]}),
        thing({}, dependencies={"a": ["b", "c"]}),
        True,
    ),
    Case(
        "dependency lengthened",
        thing({}, dependencies={"a": ["b", "c"]}),
        thing({}, dependencies={"a": ["b"]}),
        False,
        "DEPENDENCY_ARRAY_EXTENDED",
    ),
    Case(
        "dependency of a schema widened",
        thing({}, dependencies={"a": thing({"b": NUMBER})}),
        thing({}, dependencies={"a": thing({"b": INT})}),
        True,
    ),
    Case(
        "dependency of a schema added",
        thing({}, dependencies={"a": thing({"b": NUMBER})}),
        thing({}),
        False,
        "DEPENDENCY_SCHEMA_ADDED",
    ),
    Case(
        "nested property narrowed",
        thing({"a": thing({"b": INT})}),
        thing({"a": thing({"b": NUMBER})}),
        False,
    ),
    Case("object to array", {"type": "array"}, thing({}), False, "TYPE_CHANGED"),
    Case(
        "condition changed",
        {"if": INT, "then": {"minimum": 3}},
        {"if": INT, "then": {"minimum": 2}},
        False,
        "CONDITION_CHANGED",
    ),
    Case(
        "condition kept",
        {"if": INT, "then": {"minimum": 2}},
        {"if": INT, "then": {"minimum": 2}},
        True,
    ),
]


def items(kinds: Json, **more: Json) -> Json:
    return {"type": "array", "items": kinds, **more}


ARRAYS = [
    Case("items the same", items(INT), items(INT), True),
    Case("items widened", items(NUMBER), items(INT), True),
    Case("items narrowed", items(INT), items(NUMBER), False, "TYPE_NARROWED"),
    Case("items restricted", items(INT), {"type": "array"}, False, "SCHEMA_ADDED"),
    Case("items no longer restricted", {"type": "array"}, items(INT), True),
    Case("items restricted to anything", items({}), {"type": "array"}, True),
    Case("unique demanded", items(INT, uniqueItems=True), items(INT), False, "UNIQUE_ITEMS_ADDED"),
    Case("unique no longer demanded", items(INT), items(INT, uniqueItems=True), True),
    Case("tuple widened", items([NUMBER, TEXT]), items([INT, TEXT]), True),
    Case("tuple narrowed", items([INT, TEXT]), items([NUMBER, TEXT]), False),
    Case("tuple longer, open", items([INT, TEXT]), items([INT]), False, "ITEM_ADDED_TO_OPEN"),
    Case("tuple longer by anything, open", items([INT, {}]), items([INT]), True),
    Case(
        "tuple longer, closed",
        items([INT, TEXT], additionalItems=False),
        items([INT], additionalItems=False),
        True,
    ),
    Case("tuple shorter, open", items([INT]), items([INT, TEXT]), True),
    Case(
        "tuple shorter, closed",
        items([INT], additionalItems=False),
        items([INT, TEXT], additionalItems=False),
        False,
        "ITEM_REMOVED_FROM_CLOSED",
    ),
    Case(
        "tuple shorter, and others cover it",
        items([INT], additionalItems=NUMBER),
        items([INT, INT], additionalItems=False),
        True,
    ),
    Case(
        "tuple shorter, and others do not cover it",
        items([INT], additionalItems=TEXT),
        items([INT, INT], additionalItems=False),
        False,
    ),
    Case(
        "further items refused",
        items([INT], additionalItems=False),
        items([INT]),
        False,
        "ADDITIONAL_ITEMS_REMOVED",
    ),
    Case(
        "further items restricted",
        items([INT], additionalItems=INT),
        items([INT]),
        False,
        "ADDITIONAL_ITEMS_NARROWED",
    ),
    Case("further items allowed", items([INT]), items([INT], additionalItems=False), True),
    Case(
        "contains added", items(INT, contains={"minimum": 3}), items(INT), False, "CONTAINS_ADDED"
    ),
    Case("contains removed", items(INT), items(INT, contains={"minimum": 3}), True),
]

CASES = [*LIMITS, *SCALARS, *OBJECTS, *ARRAYS]
