"""Avro's types.

Types may be recursive (a linked list's node has a field of its own type), so they compare by identity and
are completed while a text is being parsed; afterwards they do not change.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeAlias

PRIMITIVES = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string"),
)
NO_DEFAULT = object()
"""Marks a field without a default; null is a valid default."""


class AvroName(NamedTuple):
    """The name of a record, an enum or a fixed."""

    space: str
    simple: str

    @property
    def full(self) -> str:
        return f"{self.space}.{self.simple}" if self.space else self.simple

    @classmethod
    def of(cls, name: str, space: str) -> "AvroName":
        """Parse a name; `space` is the enclosing namespace."""
        before, dot, simple = name.rpartition(".")
        return cls(before if dot else space, simple)


@dataclass(eq=False, slots=True)
class AvroPrimitive:
    type: str
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class AvroArray:
    items: "AvroType"
    attributes: dict[str, Any] = field(default_factory=dict)
    type = "array"


@dataclass(eq=False, slots=True)
class AvroMap:
    values: "AvroType"
    attributes: dict[str, Any] = field(default_factory=dict)
    type = "map"


@dataclass(eq=False, slots=True)
class AvroUnion:
    branches: list["AvroType"]
    type = "union"


@dataclass(eq=False, slots=True, kw_only=True)
class NamedType:
    """What the types that a name refers to have in common."""

    type: ClassVar[str]
    name: AvroName
    doc: str | None
    aliases: list[AvroName]
    attributes: dict[str, Any]


@dataclass(eq=False, slots=True, kw_only=True)
class AvroFixed(NamedType):
    size: int
    type = "fixed"


@dataclass(eq=False, slots=True, kw_only=True)
class AvroEnum(NamedType):
    symbols: list[str]
    default: str | None = None
    type = "enum"


@dataclass(eq=False, slots=True, kw_only=True)
class AvroField:
    name: str
    type: "AvroType"
    place: str
    default: Any = NO_DEFAULT
    doc: str | None = None
    order: str = "ascending"
    aliases: list[str] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def has_default(self) -> bool:
        return self.default is not NO_DEFAULT


@dataclass(eq=False, slots=True, kw_only=True)
class AvroRecord(NamedType):
    """A record, or an error, which has the same shape."""

    fields: list[AvroField] = field(default_factory=list)
    is_error: bool = False
    type = "record"


@dataclass(eq=False, slots=True)
class UnresolvedName:
    """A name that is used before its definition; none is left after parsing."""

    name: AvroName
    place: str
    type = "awaited"


AvroType: TypeAlias = AvroPrimitive | AvroArray | AvroMap | AvroUnion | NamedType | UnresolvedName
