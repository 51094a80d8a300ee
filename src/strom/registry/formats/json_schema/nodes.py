"""A JSON Schema taken apart: each node restricts values of one sort.

A schema object may speak of texts, numbers and objects at once. Taken apart it is an `allOf` of
nodes, which can be compared one with the other. This is how Confluent's registry sees schemas,
whose rules of compatibility are followed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


@dataclass(eq=False, slots=True, kw_only=True)
class Node:
    """What all nodes have; two are the same only if they are the same place of a document."""

    source: Any
    """The JSON that the node was made of."""
    has_default: bool = False

    @property
    def word(self) -> str:
        """The sort of node, for messages."""
        return type(self).__name__.lower()


@dataclass(eq=False, slots=True, kw_only=True)
class Anything(Node):
    """Accepts every value."""


@dataclass(eq=False, slots=True, kw_only=True)
class Nothing(Node):
    """Accepts no value."""


@dataclass(eq=False, slots=True, kw_only=True)
class Pointer(Node):
    """Means a schema elsewhere."""

    follow: Callable[[], Node]
    """Go there; what is there is no pointer."""


@dataclass(eq=False, slots=True, kw_only=True)
class Typed(Node):
    """Restricts values of one type."""

    excludes_others: bool
    """Whether values of other types are refused, or just not spoken of."""


@dataclass(eq=False, slots=True, kw_only=True)
class Boolean(Typed):
    """Accepts true and false."""


@dataclass(eq=False, slots=True, kw_only=True)
class Null(Typed):
    """Accepts null."""


@dataclass(eq=False, slots=True, kw_only=True)
class String(Typed):
    """Restricts texts."""

    bounds: dict[str, float]
    pattern: str | None = None


@dataclass(eq=False, slots=True, kw_only=True)
class Number(Typed):
    """Restricts numbers."""

    bounds: dict[str, float]
    multiple_of: float | None = None
    integer: bool = False


@dataclass(eq=False, slots=True, kw_only=True)
class Object(Typed):
    """Restricts objects: which properties there may be, and must be."""

    bounds: dict[str, float]
    properties: dict[str, Node] = field(default_factory=dict)
    patterns: dict[str, Node] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    additional: Node | None = None
    unevaluated: Node | None = None
    names: Node | None = None
    dependent_names: dict[str, frozenset[str]] = field(default_factory=dict)
    dependent_schemas: dict[str, Node] = field(default_factory=dict)


@dataclass(eq=False, slots=True, kw_only=True)
class Array(Typed):
    """Restricts arrays: the first items one by one, and all others."""

    bounds: dict[str, float]
    first: list[Node] = field(default_factory=list)
    every: Node | None = None
    additional: Node | None = None
    unevaluated: Node | None = None
    contains: Node | None = None
    unique: bool = False


@dataclass(eq=False, slots=True, kw_only=True)
class Enum(Node):
    """Accepts certain values."""

    values: list[Any]


@dataclass(eq=False, slots=True, kw_only=True)
class Const(Node):
    """Accepts one value."""

    value: Any


class Criterion(StrEnum):
    """How many of several schemas have to accept a value."""

    ALL = "allOf"
    ANY = "anyOf"
    ONE = "oneOf"


@dataclass(eq=False, slots=True, kw_only=True)
class Combined(Node):
    """Accepts what all, any, or exactly one of its parts accept."""

    criterion: Criterion
    parts: list[Node]


@dataclass(eq=False, slots=True, kw_only=True)
class Negation(Node):
    """Accepts what its part does not."""

    part: Node


@dataclass(eq=False, slots=True, kw_only=True)
class Condition(Node):
    """Chooses between two schemas by a third."""


def identity(value: Any) -> Any:
    """Make something hashable that is equal for equal JSON: 1 and 1.0 are, 1 and true are not."""
    match value:
        case bool():
            return "boolean", value
        case dict():
            return frozenset((key, identity(item)) for key, item in value.items())
        case list():
            return tuple(identity(item) for item in value)
        case _:
            return value
