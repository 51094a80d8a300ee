"""A JSON Schema split into nodes, each of which restricts values of one type.

A schema object may restrict strings, numbers and objects at once; split up, it is an `allOf` of nodes
that can be compared with each other. Confluent's registry, whose compatibility rules are applied here,
models schemas the same way.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


@dataclass(eq=False, slots=True, kw_only=True)
class SchemaNode:
    """Base of all nodes; two are equal only if they are the same location of a document."""

    source: Any
    """The JSON that the node was built from."""
    has_default: bool = False

    @property
    def word(self) -> str:
        """The node's type in messages."""
        return type(self).__name__.lower()


@dataclass(eq=False, slots=True, kw_only=True)
class Anything(SchemaNode):
    """Accepts every value; the schema `true`."""


@dataclass(eq=False, slots=True, kw_only=True)
class Nothing(SchemaNode):
    """Accepts no value; the schema `false`."""


@dataclass(eq=False, slots=True, kw_only=True)
class Pointer(SchemaNode):
    """Refers to a schema elsewhere."""

    follow: Callable[[], SchemaNode]
    """Returns the target, which is not a pointer itself."""


@dataclass(eq=False, slots=True, kw_only=True)
class Typed(SchemaNode):
    """Restricts values of one type."""

    excludes_others: bool
    """Whether values of other types are rejected, or just not restricted."""


@dataclass(eq=False, slots=True, kw_only=True)
class Boolean(Typed):
    """Accepts true and false."""


@dataclass(eq=False, slots=True, kw_only=True)
class Null(Typed):
    """Accepts only null; the schema of type `null`."""


@dataclass(eq=False, slots=True, kw_only=True)
class String(Typed):
    bounds: dict[str, float]
    pattern: str | None = None


@dataclass(eq=False, slots=True, kw_only=True)
class Number(Typed):
    bounds: dict[str, float]
    multiple_of: float | None = None
    integer: bool = False


@dataclass(eq=False, slots=True, kw_only=True)
class Object(Typed):
    """Restricts objects: which properties may and must be present."""

    bounds: dict[str, float]
    properties: dict[str, SchemaNode] = field(default_factory=dict)
    patterns: dict[str, SchemaNode] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    additional: SchemaNode | None = None
    unevaluated: SchemaNode | None = None
    names: SchemaNode | None = None
    dependent_names: dict[str, frozenset[str]] = field(default_factory=dict)
    dependent_schemas: dict[str, SchemaNode] = field(default_factory=dict)


@dataclass(eq=False, slots=True, kw_only=True)
class Array(Typed):
    """Restricts arrays: the first items one by one, and the remaining ones."""

    bounds: dict[str, float]
    first: list[SchemaNode] = field(default_factory=list)
    every: SchemaNode | None = None
    additional: SchemaNode | None = None
    unevaluated: SchemaNode | None = None
    contains: SchemaNode | None = None
    unique: bool = False


@dataclass(eq=False, slots=True, kw_only=True)
class Enum(SchemaNode):
    values: list[Any]


@dataclass(eq=False, slots=True, kw_only=True)
class Const(SchemaNode):
    value: Any


class Criterion(StrEnum):
    """How many of several schemas must accept a value."""

    ALL = "allOf"
    ANY = "anyOf"
    ONE = "oneOf"


@dataclass(eq=False, slots=True, kw_only=True)
class Combined(SchemaNode):
    """Accepts what all, any, or exactly one of its parts accept."""

    criterion: Criterion
    parts: list[SchemaNode]
    distinct: list[SchemaNode] | None = None
    """The parts without duplicates, once they are known."""


@dataclass(eq=False, slots=True, kw_only=True)
class Negation(SchemaNode):
    """Accepts what its part does not."""

    part: SchemaNode


@dataclass(eq=False, slots=True, kw_only=True)
class Condition(SchemaNode):
    """Chooses between two schemas by a third."""


def identity(value: Any) -> Any:
    """A hashable value that is equal for equal JSON: 1 equals 1.0, but not true."""
    match value:
        case bool():
            return "boolean", value
        case dict():
            return frozenset((key, identity(item)) for key, item in value.items())
        case list():
            return tuple(identity(item) for item in value)
        case _:
            return value
