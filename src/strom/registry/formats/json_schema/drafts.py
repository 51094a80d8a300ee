"""The drafts of JSON Schema: how a schema names its draft, and which keywords each draft lacks."""

from typing import Any, NamedTuple

SINCE_6 = frozenset(("const", "contains", "propertyNames"))
SINCE_7 = frozenset(("if", "then", "else"))
SINCE_2019 = frozenset(
    (
        *("dependentRequired", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties"),
        *("minContains", "maxContains", "$recursiveRef"),
    )
)
SINCE_2020 = frozenset(("prefixItems", "$dynamicRef"))


class JsonSchemaDraft(NamedTuple):
    validator: str
    """Its name in jsonschema-rs."""
    unknown: frozenset[str]
    """Keywords of later drafts, which have no meaning here and may have any value."""
    siblings_count: bool = False
    """Whether keywords beside a `$ref` apply."""


DRAFT_7 = JsonSchemaDraft("Draft7Validator", SINCE_2019 | SINCE_2020)
DRAFTS = {
    "json-schema.org/draft-04/schema": JsonSchemaDraft(
        "Draft4Validator", SINCE_6 | SINCE_7 | SINCE_2019 | SINCE_2020
    ),
    "json-schema.org/draft-06/schema": JsonSchemaDraft(
        "Draft6Validator", SINCE_7 | SINCE_2019 | SINCE_2020
    ),
    "json-schema.org/draft-07/schema": DRAFT_7,
    "json-schema.org/draft/2019-09/schema": JsonSchemaDraft(
        "Draft201909Validator", SINCE_2020, True
    ),
    "json-schema.org/draft/2020-12/schema": JsonSchemaDraft(
        "Draft202012Validator", frozenset(("$recursiveRef", "additionalItems")), True
    ),
}


def draft_of(document: Any) -> JsonSchemaDraft:
    """The draft of a schema: draft 7 if it names none, as in Confluent's registry."""
    said = document.get("$schema") if isinstance(document, dict) else None
    if not isinstance(said, str):
        return DRAFT_7
    uri = said.rstrip("#").removeprefix("http://").removeprefix("https://")
    return DRAFTS.get(uri, DRAFT_7)
