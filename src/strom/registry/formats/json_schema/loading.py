"""From JSON to nodes."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import urljoin

from strom.registry.formats.json_schema.documents import Documents, Place, base_inside
from strom.registry.formats.json_schema.nodes import (
    Anything,
    Array,
    Boolean,
    Combined,
    Condition,
    Const,
    Criterion,
    Enum,
    Negation,
    Node,
    Nothing,
    Null,
    Number,
    Object,
    Pointer,
    String,
)

MAX_HOPS = 100
"""How many references may lead from one straight to the next."""

STRING_BOUNDS = ("minLength", "maxLength")
NUMBER_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
OBJECT_BOUNDS = ("minProperties", "maxProperties")
ARRAY_BOUNDS = ("minItems", "maxItems", "minContains", "maxContains")

Json = Mapping[str, Any]


class Loader:
    """Makes nodes of the schemas in documents, one for each place, however often it is met."""

    def __init__(self, documents: Documents, siblings_count: bool) -> None:
        self._documents = documents
        self._siblings_count = siblings_count
        self._nodes: dict[int, Node] = {}
        self._places: dict[str, Place] = {}
        self._makers: dict[str, Callable[[Json, str, bool], Node]] = {
            "string": _string,
            "number": partial(_number, integer=False),
            "integer": partial(_number, integer=True),
            "boolean": lambda schema, base, strict: Boolean(source=schema, excludes_others=strict),
            "null": lambda schema, base, strict: Null(source=schema, excludes_others=strict),
            "object": self._object,
            "array": self._array,
        }

    def root(self) -> Node:
        """Load the schema itself."""
        return self.follow(Pointer(source=None, uri=self._documents.base))

    def follow(self, node: Node) -> Node:
        """Go from a reference to what it means, however many steps that takes."""
        for _ in range(MAX_HOPS):
            if not isinstance(node, Pointer):
                return node
            if node.uri not in self._places:
                self._places[node.uri] = self._documents.find(node.uri)
            place = self._places[node.uri]
            node = self._load(place.value, place.base)
        return Anything(source=True)  # references in a circle restrict nothing

    def _load(self, schema: Any, base: str) -> Node:
        if id(schema) not in self._nodes or not isinstance(schema, dict):
            self._nodes[id(schema)] = self._make(schema, base)
        return self._nodes[id(schema)]

    def _make(self, schema: Any, base: str) -> Node:
        if not isinstance(schema, dict):
            return Nothing(source=False) if schema is False else Anything(source=True)
        base = base_inside(schema, base)
        parts = self._parts(schema, base)
        if not parts:
            node: Node = Anything(source=schema)
        elif len(parts) == 1:
            node = parts[0]
        else:
            node = Combined(source=schema, criterion=Criterion.ALL, parts=parts)
        node.has_default = "default" in schema
        return node

    def _parts(self, schema: dict[str, Any], base: str) -> list[Node]:
        parts: list[Node] = []
        for word in ("$ref", "$dynamicRef", "$recursiveRef"):
            if isinstance(schema.get(word), str):
                parts.append(Pointer(source=schema, uri=urljoin(base, schema[word])))
                if not self._siblings_count:
                    return parts
        if "enum" in schema:
            parts.append(Enum(source=schema, values=schema["enum"]))
        parts += [
            Combined(
                source=schema,
                criterion=criterion,
                parts=[self._load(part, base) for part in schema[criterion]],
            )
            for criterion in Criterion
            if criterion in schema
        ]
        if "not" in schema:
            parts.append(Negation(source=schema, part=self._load(schema["not"], base)))
        if "const" in schema:
            parts.append(Const(source=schema, value=schema["const"]))
        if "if" in schema:
            words = ("if", "then", "else")
            parts.append(Condition(source={word: schema.get(word, True) for word in words}))
        return parts + self._typed(schema, base)

    def _typed(self, schema: dict[str, Any], base: str) -> list[Node]:
        """Make nodes of the types that a schema names, or else speaks of by its keywords."""
        match schema.get("type"):
            case str() as name:
                return [self._makers[name](schema, base, True)]
            case list() as names:
                choices = [self._makers[name](schema, base, True) for name in names]
                return [Combined(source=schema, criterion=Criterion.ANY, parts=choices)]
            case _:
                return [
                    self._makers[name](schema, base, False)
                    for name, words in KEYWORDS.items()
                    if not words.isdisjoint(schema)
                ]

    def _object(self, schema: Json, base: str, strict: bool) -> Object:
        dependencies = schema.get("dependencies", {}) | schema.get("dependentRequired", {})
        names = {key: value for key, value in dependencies.items() if isinstance(value, list)}
        schemas = {key: value for key, value in dependencies.items() if key not in names}
        return Object(
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

    def _array(self, schema: Json, base: str, strict: bool) -> Array:
        items = schema.get("items")
        if "prefixItems" in schema:  # since 2020; what is then called items are the others
            first, every, others = schema["prefixItems"], None, "items"
        elif isinstance(items, list):
            first, every, others = items, None, "additionalItems"
        else:
            first, every, others = [], self._restricting(schema, "items", base), ""
        return Array(
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

    def _each(self, schemas: Json, base: str) -> dict[str, Node]:
        return {key: self._load(schema, base) for key, schema in schemas.items()}

    def _restricting(self, schema: Json, word: str, base: str) -> Node | None:
        """Load the schema under a keyword; one that accepts everything is as good as none."""
        node = self._load(schema.get(word, True), base)
        return None if isinstance(node, Anything) else node


KEYWORDS = {
    "array": frozenset(
        (*ARRAY_BOUNDS, "items", "additionalItems", "prefixItems", "unevaluatedItems", "contains")
    )
    | {"uniqueItems"},
    "object": frozenset(
        (*OBJECT_BOUNDS, "properties", "patternProperties", "required", "additionalProperties")
    )
    | {"unevaluatedProperties", "propertyNames", "dependencies", "dependentRequired"}
    | {"dependentSchemas"},
    "number": frozenset((*NUMBER_BOUNDS, "multipleOf")),
    "string": frozenset((*STRING_BOUNDS, "pattern")),
}
"""By which keywords a schema without a type speaks of one."""


def _string(schema: Json, base: str, strict: bool) -> String:
    return String(
        source=schema,
        excludes_others=strict,
        bounds=_bounds(schema, STRING_BOUNDS),
        pattern=schema.get("pattern"),
    )


def _number(schema: Json, base: str, strict: bool, integer: bool) -> Number:
    bounds = _bounds(schema, NUMBER_BOUNDS)
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if schema.get(exclusive) is True and limit in bounds:  # draft 4
            bounds[exclusive] = bounds.pop(limit)
    return Number(
        source=schema,
        excludes_others=strict,
        bounds=bounds,
        multiple_of=schema.get("multipleOf"),
        integer=integer,
    )


def _bounds(schema: Json, words: tuple[str, ...]) -> dict[str, float]:
    found = {word: schema[word] for word in words if word in schema}
    return {word: value for word, value in found.items() if not isinstance(value, bool)}
