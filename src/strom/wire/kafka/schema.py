"""How a Kafka message is declared: as a class, once for all versions.

    class HeartbeatRequest(Request, api_key=12, versions="0-4", flexible="4+"):
        group_id: str = fields.string()
        generation_id: int = fields.int32()
        member_id: str = fields.string()
        group_instance_id: str | None = fields.string("3+", nullable="3+", default=None)

A field declares the versions that carry it (by default "0+"); in other versions it has its declared
default. Versions in a nested struct apply within the versions of the field that holds it.
Instances are plain objects with slots; every field is optional in the constructor. The codec
(`codec.py`) generates code from declarations; `fields.py` has the functions that declare fields.

Fields are in wire order and have Kafka's names, in snake case. A uuid is 16 raw bytes, which hash and
compare fast; an array is a list; an absent tagged struct is None.
"""

from collections.abc import Sequence, Sized
from enum import Enum
from functools import cache
from typing import Any, ClassVar, NamedTuple, TypeAlias, dataclass_transform

from strom.wire.kafka.batch import Buffer

Uuid: TypeAlias = bytes
Records: TypeAlias = Buffer | Sequence[Sized] | None
"""Record batches as given to the encoder: one buffer or several, never copied.

The encoder uses only the length of a buffer, so it may also be a region of a file (for sendfile).
"""

NO_UUID: Uuid = bytes(16)


class Versions(NamedTuple):
    """A range of versions, both ends included; empty when first > last."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


ANY_LATER = 2**15 - 1
"""The end of an open range: versions are int16."""
NEVER = Versions(1, 0)


@cache
def parse_versions(text: str) -> Versions:
    """Kafka's notation for a range: "3+", "0-12", "4" or "none"."""
    if text == "none":
        return NEVER
    if text.endswith("+"):
        return Versions(int(text[:-1]), ANY_LATER)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))


class Scalar(Enum):
    """The primitive types; the value is the code for `struct`, if any."""

    BOOLEAN = "?"
    INT8 = "b"
    INT16 = "h"
    UINT16 = "H"
    INT32 = "i"
    INT64 = "q"
    UUID = "16s"
    STRING = "string"
    BYTES = "bytes"
    RECORDS = "records"

    @property
    def fixed_format(self) -> str | None:
        """The code for `struct`, or None for types whose size is on the wire."""
        return None if self in _SIZED else self.value


_SIZED = frozenset({Scalar.STRING, Scalar.BYTES, Scalar.RECORDS})


class ArrayOf(NamedTuple):
    """An array; Kafka's maps are arrays on the wire too."""

    element: "Scalar | type[Struct]"


class Field(NamedTuple):
    """One field of a struct, as declared."""

    name: str
    type: "Scalar | ArrayOf | type[Struct]"
    versions: Versions
    nullable: Versions
    default: Any
    """A value, or FRESH for a new empty list or a new struct of defaults each time."""
    ignorable: bool
    """Whether a version without the field may silently drop its value."""
    tag: int | None


class Fresh(Enum):
    """The default of a field whose value is mutable, so that no two instances share it."""

    FRESH = 0

    def __repr__(self) -> str:
        return "FRESH"


FRESH = Fresh.FRESH


class Schema(NamedTuple):
    """What a class declares; everything but the fields applies only to messages."""

    fields: tuple[Field, ...]
    api_key: int
    versions: Versions
    flexible: Versions
    """The versions with compact lengths and tagged fields."""
    stable: Versions
    """The versions to advertise; Kafka does not advertise a version that is still unstable."""


@dataclass_transform(kw_only_default=True)
class _StructType(type):
    """Collects the declared fields of a class and gives it slots for them."""

    def __new__(
        cls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        api_key: int = -1,
        versions: str = "0+",
        flexible: str = "none",
        stable: str | None = None,
    ) -> "_StructType":
        declared = {key: item for key, item in namespace.items() if isinstance(item, Field)}
        for key in declared:
            del namespace[key]
        namespace["__slots__"] = tuple(declared)
        namespace["SCHEMA"] = Schema(
            fields=tuple(item._replace(name=key) for key, item in declared.items()),
            api_key=api_key,
            versions=parse_versions(versions),
            flexible=parse_versions(flexible),
            stable=parse_versions(stable or versions),
        )
        return super().__new__(cls, name, bases, namespace)


class Struct(metaclass=_StructType):
    SCHEMA: ClassVar[Schema]

    def __init__(self, **values: Any) -> None:
        # The constructor is generated with the first instance: most classes never need one.
        constructor = _constructor(type(self))
        setattr(type(self), "__init__", constructor)  # noqa: B010 - mypy forbids the assignment
        constructor(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        names = [field.name for field in self.SCHEMA.fields]
        return all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]  # its fields can change

    def __repr__(self) -> str:
        names = [field.name for field in self.SCHEMA.fields]
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__name__}({values})"


class Request(Struct):
    pass


class Response(Struct):
    pass


def _constructor(cls: type[Struct]) -> Any:
    """Generate `__init__` with a keyword argument per field, which is faster than a loop."""
    arguments, lines = [], []
    scope: dict[str, Any] = {"FRESH": FRESH}
    for field in cls.SCHEMA.fields:
        arguments.append(f"{field.name}={field.default!r}")
        value = field.name
        if field.default is FRESH:
            fresh = "[]"
            if not isinstance(field.type, ArrayOf):
                fresh = f"new_{field.name}()"
                scope[f"new_{field.name}"] = field.type
            value = f"{fresh} if {field.name} is FRESH else {field.name}"
        lines.append(f"    self.{field.name} = {value}")
    signature = ", ".join(["self", "*", *arguments] if arguments else ["self"])
    source = "\n".join([f"def __init__({signature}):", *lines, "    return None"])
    exec(source, scope)  # noqa: S102 - the source is made of declarations only
    return scope["__init__"]
