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


def any_of(*schemas: Json) -> Json:
    return {"anyOf": list(schemas)}


def one_of(*schemas: Json) -> Json:
    return {"oneOf": list(schemas)}


def all_of(*schemas: Json) -> Json:
    return {"allOf": list(schemas)}


COMBINED = [
    Case("type to a list of types", {"type": ["string", "null"]}, TEXT, True),
    Case("list of types to one", TEXT, {"type": ["string", "null"]}, False),
    Case(
        "list of types grows",
        {"type": ["string", "null", "integer"]},
        {"type": ["string", "null"]},
        True,
    ),
    Case("list of types shrinks", {"type": ["string"]}, {"type": ["string", "null"]}, False),
    Case("type to a choice that has it", one_of(INT, TEXT), TEXT, True),
    Case("type to a choice without it", one_of(INT, TEXT), {"type": "boolean"}, False),
    Case("choice grows", one_of(INT, TEXT), one_of(INT), True),
    Case("choice shrinks", any_of(INT), any_of(INT, TEXT), False, "SUM_TYPE_NARROWED"),
    Case("choice in another order", any_of(TEXT, INT), any_of(INT, TEXT), True),
    Case("choice with a part widened", any_of(TEXT, NUMBER), any_of(INT, TEXT), True),
    Case(
        "choice with a part narrowed",
        any_of(TEXT, INT),
        any_of(NUMBER, TEXT),
        False,
        "COMBINED_TYPE_SUBSCHEMAS_CHANGED",
    ),
    Case(
        "choice with a part replaced", one_of(TEXT, {"type": "boolean"}), one_of(TEXT, INT), False
    ),
    Case("one of to any of", any_of(INT, TEXT), one_of(INT, TEXT), True),
    Case("any of to one of", one_of(INT, TEXT), any_of(INT, TEXT), False, "COMBINED_TYPE_CHANGED"),
    Case("all of to any of", any_of(INT, {"minimum": 1}), all_of(INT, {"minimum": 1}), True),
    Case(
        "any of to all of",
        all_of(INT, {"minimum": 1}),
        any_of(INT, {"minimum": 1}),
        False,
        "COMBINED_TYPE_CHANGED",
    ),
    Case("choice of one to the schema", TEXT, one_of(TEXT), True),
    Case("schema to a demand of one", all_of(TEXT), TEXT, True),
    Case("demands grow", all_of(INT, {"minimum": 1}), all_of(INT), False, "PRODUCT_TYPE_EXTENDED"),
    Case("demands shrink", all_of(INT), all_of(INT, {"minimum": 1}), True),
    Case("demands to one of them", INT, all_of(INT, {"minimum": 1}), True),
    Case("demand written twice", all_of(TEXT), all_of(TEXT, TEXT), True),
    Case(
        "demands in another order", all_of({"minimum": 1}, INT), all_of(INT, {"minimum": 1}), True
    ),
    Case(
        "each part of the choice needs one of its own",
        any_of({**INT, "maximum": 9}, NUMBER),
        any_of(INT, {**INT, "maximum": 9}),
        True,
    ),
    Case(
        "object with a choice beside it",
        {**thing({"a": NUMBER}), **one_of({"required": ["a"]}, {"required": ["b"]})},
        {**thing({"a": INT}), **one_of({"required": ["a"]}, {"required": ["b"]})},
        True,
    ),
    Case(
        "both choices kept",
        {**any_of(INT, TEXT), **one_of(INT, TEXT)},
        {**any_of(INT, TEXT), **one_of(INT, TEXT)},
        True,
    ),
]


def tree(value: Json, **more: Json) -> Json:
    children = items({"$ref": "#"})
    return thing({"value": value, "children": children}, **more)


def definitions(use: Json, **named: Json) -> Json:
    return {**use, "definitions": named}


REFERENCES = [
    Case("tree to the same", tree(INT), tree(INT), True),
    Case("tree widened", tree(NUMBER), tree(INT), True),
    Case("tree narrowed", tree(INT), tree(NUMBER), False, "TYPE_NARROWED"),
    Case("tree requires more", tree(INT, required=["value"]), tree(INT), False),
    Case(
        "definition widened",
        definitions(thing({"a": {"$ref": "#/definitions/n"}}), n=NUMBER),
        definitions(thing({"a": {"$ref": "#/definitions/n"}}), n=INT),
        True,
    ),
    Case(
        "definition narrowed",
        definitions(thing({"a": {"$ref": "#/definitions/n"}}), n=INT),
        definitions(thing({"a": {"$ref": "#/definitions/n"}}), n=NUMBER),
        False,
    ),
    Case(
        "definition written out",
        thing({"a": INT}),
        definitions(thing({"a": {"$ref": "#/definitions/n"}}), n=INT),
        True,
    ),
    Case(
        "definition behind a definition, with odd characters",
        definitions(
            {"$ref": "#/definitions/a~1b%25"}, **{"a/b%": {"$ref": "#/definitions/n"}, "n": NUMBER}
        ),
        INT,
        True,
    ),
    Case("reference by id", definitions({"$ref": "#n"}, n={"$id": "#n", **NUMBER}), INT, True),
    Case(
        "reference by the id of a part",
        {
            "$id": "http://x.test/root.json",
            **definitions({"$ref": "n.json"}, n={"$id": "n.json", **TEXT}),
        },
        TEXT,
        True,
    ),
    Case(
        "words beside a reference do not count",
        definitions({"$ref": "#/definitions/n", "minimum": 5}, n=INT),
        INT,
        True,
    ),
    Case(
        "a circle with a change that is met on the way back",
        definitions(
            {"$ref": "#/definitions/a"},
            a=thing({"b": {"$ref": "#/definitions/b"}}),
            b=thing({"a": {"$ref": "#/definitions/a"}, "v": INT}),
        ),
        definitions(
            {"$ref": "#/definitions/a"},
            a=thing({"b": {"$ref": "#/definitions/b"}}),
            b=thing({"a": {"$ref": "#/definitions/a"}, "v": TEXT}),
        ),
        False,
    ),
]

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


def in_draft(uri: str, reader: Json, writer: Json) -> tuple[Json, Json]:
    return {"$schema": uri, **reader}, {"$schema": uri, **writer}


DRAFTS = [
    Case(
        "draft 4: limit becomes exclusive",
        *in_draft(DRAFT_4, {**INT, "minimum": 2, "exclusiveMinimum": True}, {**INT, "minimum": 2}),
        False,
    ),
    Case(
        "draft 4: exclusive limit lowered",
        *in_draft(
            DRAFT_4,
            {**INT, "minimum": 1, "exclusiveMinimum": True},
            {**INT, "minimum": 2, "exclusiveMinimum": True},
        ),
        True,
    ),
    Case(
        "2019: words beside a reference count",
        *in_draft(DRAFT_2019, {"$ref": "#/$defs/n", "minimum": 5, "$defs": {"n": INT}}, INT),
        False,
    ),
    Case(
        "2019: unevaluated properties refused",
        *in_draft(DRAFT_2019, thing({"a": INT}, unevaluatedProperties=False), thing({"a": INT})),
        False,
        "UNEVALUATED_PROPERTIES_REMOVED",
    ),
    Case(
        "2019: unevaluated properties allowed",
        *in_draft(DRAFT_2019, thing({"a": INT}), thing({"a": INT}, unevaluatedProperties=False)),
        True,
    ),
    Case(
        "2019: property added where none is unevaluated",
        *in_draft(
            DRAFT_2019,
            thing({"a": INT}, unevaluatedProperties=False),
            thing({}, unevaluatedProperties=False),
        ),
        True,
    ),
    Case(
        "2019: dependentRequired added",
        *in_draft(DRAFT_2019, thing({}, dependentRequired={"a": ["b"]}), thing({})),
        False,
        "DEPENDENCY_ARRAY_ADDED",
    ),
    Case(
        "2019: dependentSchemas widened",
        *in_draft(
            DRAFT_2019,
            thing({}, dependentSchemas={"a": {"required": []}}),
            thing({}, dependentSchemas={"a": {"required": ["b"]}}),
        ),
        True,
    ),
    Case(
        "2019: anchors",
        *in_draft(DRAFT_2019, {"$ref": "#n", "$defs": {"n": {"$anchor": "n", **NUMBER}}}, INT),
        True,
    ),
    Case(
        "2020: prefix widened",
        *in_draft(
            DRAFT_2020,
            {"type": "array", "prefixItems": [NUMBER]},
            {"type": "array", "prefixItems": [INT]},
        ),
        True,
    ),
    Case(
        "2020: prefix narrowed",
        *in_draft(
            DRAFT_2020,
            {"type": "array", "prefixItems": [INT]},
            {"type": "array", "prefixItems": [NUMBER]},
        ),
        False,
    ),
    Case(
        "2020: items after the prefix refused",
        *in_draft(
            DRAFT_2020,
            {"type": "array", "prefixItems": [INT], "items": False},
            {"type": "array", "prefixItems": [INT]},
        ),
        False,
        "ADDITIONAL_ITEMS_REMOVED",
    ),
    Case(
        "2020: more of what is contained demanded",
        *in_draft(
            DRAFT_2020,
            {"type": "array", "contains": INT, "minContains": 2},
            {"type": "array", "contains": INT},
        ),
        False,
        "MIN_CONTAINS_ADDED",
    ),
]

CASES = [*LIMITS, *SCALARS, *OBJECTS, *ARRAYS, *COMBINED, *REFERENCES, *DRAFTS]
