"""More pairs of JSON Schemas: combinations, references, and what only some drafts know."""

from tests.registry.formats.json_cases import INT, NUMBER, TEXT, Case, Json, items, thing


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
    Case("reference to nothing", definitions({"$ref": "#/definitions/n"}, n=False), INT, False),
    Case("reference to anything", definitions({"$ref": "#/definitions/n"}, n=True), INT, True),
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
        "draft 7: words of later drafts mean nothing",
        {"prefixItems": None, "minContains": "x"},
        {},
        True,
    ),
    Case(
        "draft 4: words of later drafts mean nothing",
        *in_draft(DRAFT_4, {"const": 3, "contains": 4, "if": 5}, {}),
        True,
    ),
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

CASES = [*COMBINED, *REFERENCES, *DRAFTS]
