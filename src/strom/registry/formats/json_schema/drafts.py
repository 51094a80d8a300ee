"""The versions of JSON Schema: how a schema says which it is, and what they do not know."""

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


class Draft(NamedTuple):
    """One version of JSON Schema."""

    validator: str
    """What jsonschema-rs calls it."""
    unknown: frozenset[str]
    """Keywords of later versions, which mean nothing here and may have any value."""
    siblings_count: bool = False
    """Whether keywords beside a `$ref` mean something."""


DRAFT_7 = Draft("Draft7Validator", SINCE_2019 | SINCE_2020)
DRAFTS = {
    "json-schema.org/draft-04/schema": Draft(
        "Draft4Validator", SINCE_6 | SINCE_7 | SINCE_2019 | SINCE_2020
    ),
    "json-schema.org/draft-06/schema": Draft("Draft6Validator", SINCE_7 | SINCE_2019 | SINCE_2020),
    "json-schema.org/draft-07/schema": DRAFT_7,
    "json-schema.org/draft/2019-09/schema": Draft("Draft201909Validator", SINCE_2020, True),
    "json-schema.org/draft/2020-12/schema": Draft(
        "Draft202012Validator", frozenset(("$recursiveRef", "additionalItems")), True
    ),
}


def draft_of(document: Any) -> Draft:
    """Tell the version of a schema: draft 7 if it does not say, as for Confluent's registry."""
    said = document.get("$schema") if isinstance(document, dict) else None
    if not isinstance(said, str):
        return DRAFT_7
    uri = said.rstrip("#").removeprefix("http://").removeprefix("https://")
    return DRAFTS.get(uri, DRAFT_7)
