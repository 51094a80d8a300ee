"""Builds nodes from the JSON of a schema."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import urljoin

from strom.registry.formats.json_schema import nodes
from strom.registry.formats.json_schema.documents import Documents, SchemaLocation, base_inside
from strom.registry.formats.json_schema.drafts import JsonSchemaDraft
from strom.registry.formats.json_schema.nodes import SchemaNode
from strom.registry.formats.schema import InvalidSchema

MAX_HOPS = 100
"""The limit on references that lead directly to other references."""

STRING_BOUNDS = ("minLength", "maxLength")
NUMBER_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
OBJECT_BOUNDS = ("minProperties", "maxProperties")
ARRAY_BOUNDS = ("minItems", "maxItems", "minContains", "maxContains")

Json = Mapping[str, Any]


class Loader:
    """Builds one node for each location in the documents, however often it is referred to."""

    def __init__(
        self, documents: Documents, draft: JsonSchemaDraft, *, lenient: bool = False
    ) -> None:
        self._lenient = lenient
        self._documents = documents
        self._draft = draft
        # Nodes compare by identity, so a location must always give the same one.
        self._nodes: dict[int, SchemaNode] = {}
        self._anything = nodes.Anything(source=True)
        self._nothing = nodes.Nothing(source=False)
        self._pointers: list[nodes.Pointer] = []
        self._places: dict[str, SchemaLocation] = {}
        self._targets: dict[str, SchemaNode] = {}
        self._makers: dict[str, Callable[[Json, str, bool], SchemaNode]] = {
            "string": _string,
            "number": partial(_number, integer=False),
            "integer": partial(_number, integer=True),
            "boolean": lambda schema, base, strict: nodes.Boolean(
                source=schema, excludes_others=strict
            ),
            "null": lambda schema, base, strict: nodes.Null(source=schema, excludes_others=strict),
            "object": self._object,
            "array": self._array,
        }

    def load(self) -> nodes.Pointer:
        """Load the schema and all that it refers to; returns the pointer to it."""
        root = self._pointer(None, self._documents.base)
        try:
            for pointer in self._pointers:  # the list grows during the loop
                pointer.follow()
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # The meta-schema cannot check the target of a reference: only loading it does.
            raise InvalidSchema("A reference leads to a value that is not a schema.") from error
        return root

    def _pointer(self, source: Any, uri: str) -> nodes.Pointer:
        pointer = nodes.Pointer(source=source, follow=partial(self._follow, uri))
        self._pointers.append(pointer)
        return pointer

    def _follow(self, uri: str) -> SchemaNode:
        # Every comparison with a pointer follows it: a chain of references is walked once only.
        if uri not in self._targets:
            self._targets[uri] = self._target(uri)
        return self._targets[uri]

    def _target(self, uri: str) -> SchemaNode:
        for _ in range(MAX_HOPS):
            if uri not in self._places:
                try:
                    self._places[uri] = self._documents.find(uri)
                except InvalidSchema:
                    if not self._lenient:
                        raise
                    return self._anything  # what an unknown schema requires is unknown too
            place = self._places[uri]
            node = self._load(place.value, place.base)
            if not isinstance(node, nodes.Pointer):
                return node
            uri = urljoin(base_inside(*place), self._reference(place.value))
        return self._anything  # circular references restrict nothing

    def _reference(self, schema: Json) -> str:
        """The target of a schema's reference, if it has one.

        A dynamic reference denotes its static target.
        """
        for word in ("$ref", "$dynamicRef", "$recursiveRef"):
            if isinstance(schema.get(word), str) and word not in self._draft.unknown:
                return str(schema[word])
        return ""

    def _load(self, schema: Any, base: str) -> SchemaNode:
        if not isinstance(schema, dict):
            return self._nothing if schema is False else self._anything
        if id(schema) not in self._nodes:
            self._nodes[id(schema)] = self._make(schema, base)
        return self._nodes[id(schema)]

    def _make(self, schema: dict[str, Any], base: str) -> SchemaNode:
        base = base_inside(schema, base)
        if not self._draft.unknown.isdisjoint(schema):
            schema = {word: schema[word] for word in schema if word not in self._draft.unknown}
        parts = self._parts(schema, base)
        if not parts:
            node: SchemaNode = nodes.Anything(source=schema)
        elif len(parts) == 1:
            node = parts[0]
        else:
            node = nodes.Combined(source=schema, criterion=nodes.Criterion.ALL, parts=parts)
        node.has_default = "default" in schema
        return node

    def _parts(self, schema: dict[str, Any], base: str) -> list[SchemaNode]:
        parts: list[SchemaNode] = []
        if reference := self._reference(schema):
            parts.append(self._pointer(schema, urljoin(base, reference)))
            if not self._draft.siblings_count:
                return parts
        if "enum" in schema:
            parts.append(nodes.Enum(source=schema, values=schema["enum"]))
        parts += [
            nodes.Combined(
                source=schema,
                criterion=criterion,
                parts=[self._load(part, base) for part in schema[criterion]],
            )
            for criterion in nodes.Criterion
            if criterion in schema
        ]
        if "not" in schema:
            parts.append(nodes.Negation(source=schema, part=self._load(schema["not"], base)))
        if "const" in schema:
            parts.append(nodes.Const(source=schema, value=schema["const"]))
        if "if" in schema:
            words = ("if", "then", "else")
            parts.append(nodes.Condition(source={word: schema.get(word, True) for word in words}))
        return parts + self._typed(schema, base)

    def _typed(self, schema: dict[str, Any], base: str) -> list[SchemaNode]:
        """Nodes for the types that a schema names, or else for those that its keywords imply."""
        match schema.get("type"):
            case str() as name:
                return [self._makers[name](schema, base, True)]
            case list() as names:
                choices = [self._makers[name](schema, base, True) for name in names]
                return [nodes.Combined(source=schema, criterion=nodes.Criterion.ANY, parts=choices)]
            case _:
                return [
                    self._makers[name](schema, base, False)
                    for name, words in KEYWORDS.items()
                    if not words.isdisjoint(schema)
                ]

    def _object(self, schema: Json, base: str, strict: bool) -> nodes.Object:
        dependencies = schema.get("dependencies", {}) | schema.get("dependentRequired", {})
        names = {key: value for key, value in dependencies.items() if isinstance(value, list)}
        schemas = {key: value for key, value in dependencies.items() if key not in names}
        return nodes.Object(
            source=schema,
            excludes_others=strict,
            bounds=_bounds(schema, OBJECT_BOUNDS),
            properties=self._each(schema.get("properties", {}), base),
            patterns=self._each(schema.get("patternProperties", {}), base),
            required=frozenset(schema.get("required", ())),
            additional=self._restricting(schema, "additionalProperties", base),
            unevaluated=self._restricting(schema, "unevaluatedProperties", base),
            names=self._restricting(schema, "propertyNames", base),
            dependent_names={key: frozenset(value) for key, value in names.items()},
            dependent_schemas=self._each(schemas | schema.get("dependentSchemas", {}), base),
        )

    def _array(self, schema: Json, base: str, strict: bool) -> nodes.Array:
        items = schema.get("items")
        if "prefixItems" in schema:  # since 2020-12, where `items` applies to the remaining ones
            first, every, others = schema["prefixItems"], None, "items"
        elif isinstance(items, list):
            first, every, others = items, None, "additionalItems"
        else:
            first, every, others = [], self._restricting(schema, "items", base), ""
        return nodes.Array(
            source=schema,
            excludes_others=strict,
            bounds=_bounds(schema, ARRAY_BOUNDS),
            first=[self._load(item, base) for item in first],
            every=every,
            additional=self._restricting(schema, others, base),
            unevaluated=self._restricting(schema, "unevaluatedItems", base),
            contains=self._load(schema["contains"], base) if "contains" in schema else None,
            unique=bool(schema.get("uniqueItems")),
        )

    def _each(self, schemas: Json, base: str) -> dict[str, SchemaNode]:
        return {key: self._load(schema, base) for key, schema in schemas.items()}

    def _restricting(self, schema: Json, word: str, base: str) -> SchemaNode | None:
        """The schema under a keyword; None if it accepts everything."""
        node = self._load(schema.get(word, True), base)
        return None if isinstance(node, nodes.Anything) else node


ITEM_WORDS = ("items", "additionalItems", "prefixItems", "unevaluatedItems")
PROPERTY_WORDS = ("properties", "patternProperties", "additionalProperties", "propertyNames")
DEPENDENCY_WORDS = ("dependencies", "dependentRequired", "dependentSchemas")
KEYWORDS = {
    "array": {*ARRAY_BOUNDS, *ITEM_WORDS, "contains", "uniqueItems"},
    "object": {
        *OBJECT_BOUNDS,
        *PROPERTY_WORDS,
        *DEPENDENCY_WORDS,
        "required",
        "unevaluatedProperties",
    },
    "number": {*NUMBER_BOUNDS, "multipleOf"},
    "string": {*STRING_BOUNDS, "pattern"},
}
"""The keywords by which a schema without `type` implies one."""


def _string(schema: Json, base: str, strict: bool) -> nodes.String:
    return nodes.String(
        source=schema,
        excludes_others=strict,
        bounds=_bounds(schema, STRING_BOUNDS),
        pattern=schema.get("pattern"),
    )


def _number(schema: Json, base: str, strict: bool, integer: bool) -> nodes.Number:
    bounds = _bounds(schema, NUMBER_BOUNDS)
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if schema.get(exclusive) is True and limit in bounds:  # draft 4
            bounds[exclusive] = bounds.pop(limit)
    return nodes.Number(
        source=schema,
        excludes_others=strict,
        bounds=bounds,
        multiple_of=schema.get("multipleOf"),
        integer=integer,
    )


def _bounds(schema: Json, words: tuple[str, ...]) -> dict[str, float]:
    found = {word: schema[word] for word in words if word in schema}
    return {word: value for word, value in found.items() if not isinstance(value, bool)}
