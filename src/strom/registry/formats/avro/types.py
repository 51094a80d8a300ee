"""The types of Avro as objects.

Types refer to each other in circles (a list's node has a field of its own type), so they are
compared by identity, and are filled in while a text is being read; nobody changes them later.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

PRIMITIVES = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string"),
)
NO_DEFAULT = object()
"""What a field has for a default that was not given; null is a default like any other."""


class Name(NamedTuple):
    """The name of a record, an enum or a fixed."""

    space: str
    simple: str

    @property
    def full(self) -> str:
        """The name with its namespace before it."""
        return f"{self.space}.{self.simple}" if self.space else self.simple

    @classmethod
    def of(cls, name: str, space: str) -> "Name":
        """Read a name as it stands in a text, `space` being the namespace around it."""
        before, dot, simple = name.rpartition(".")
        return cls(before if dot else space, simple)


@dataclass(eq=False, slots=True)
class Primitive:
    """One of the types without parts."""

    type: str
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Array:
    """Any number of items of one type."""

    items: "AvroType"
    attributes: dict[str, Any] = field(default_factory=dict)
    type = "array"


@dataclass(eq=False, slots=True)
class Map:
    """Values of one type under texts as keys."""

    values: "AvroType"
    attributes: dict[str, Any] = field(default_factory=dict)
    type = "map"


@dataclass(eq=False, slots=True)
class Union:
    """One of several types."""

    branches: list["AvroType"]
    type = "union"


@dataclass(eq=False, slots=True, kw_only=True)
class Fixed:
    """A certain number of bytes."""

    name: Name
    size: int
    doc: str | None = None
    aliases: list[Name] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    type = "fixed"


@dataclass(eq=False, slots=True, kw_only=True)
class Enumeration:
    """One of several symbols."""

    name: Name
    symbols: list[str]
    default: str | None = None
    doc: str | None = None
    aliases: list[Name] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    type = "enum"


@dataclass(eq=False, slots=True, kw_only=True)
class Field:
    """A named part of a record."""

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
        """Whether a reader can do without the field in the data."""
        return self.default is not NO_DEFAULT


@dataclass(eq=False, slots=True, kw_only=True)
class Record:
    """Fields under a name; an error is a record that is thrown."""

    name: Name
    fields: list[Field] = field(default_factory=list)
    is_error: bool = False
    doc: str | None = None
    aliases: list[Name] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    type = "record"


@dataclass(eq=False, slots=True)
class Awaited:
    """A name whose definition comes later in the text; none is left once the text is read."""

    name: Name
    place: str
    type = "awaited"


Named: TypeAlias = Fixed | Enumeration | Record
AvroType: TypeAlias = Primitive | Array | Map | Union | Named | Awaited
