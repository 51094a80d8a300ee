"""How a method is declared: as a class, once.

    class Ack(Method, class_id=60, method_id=80):
        delivery_tag: int = longlong()
        multiple: bool = bit()

Instances are immutable, have slots and take every field by position or by name, with a default for
each. The codec (`codec.py`) generates code from declarations. Fields are in wire order and have the
names of the specification, in snake case; reserved fields are declared like the others. Methods with
equal fields inherit them from a base class without ids. A short string is str, a long string is bytes,
a table is a dict (see `table.py`).

These are not dataclasses: creating sixty of those takes longer than the rest of starting up.
"""

from enum import Enum
from typing import Any, ClassVar, NamedTuple, NoReturn, cast, dataclass_transform

from strom.model.tables import Table


class Kind(Enum):
    """The types of arguments; the value is the code for `struct`, if any."""

    BIT = "bit"
    OCTET = "B"
    SHORT = "H"
    LONG = "I"
    LONGLONG = "Q"
    SHORTSTR = "shortstr"
    LONGSTR = "longstr"
    TABLE = "table"


FIXED_KINDS = frozenset({Kind.OCTET, Kind.SHORT, Kind.LONG, Kind.LONGLONG})


class Field(NamedTuple):
    """One argument of a method, as declared."""

    name: str
    kind: Kind
    default: Any
    """A value, or None for a table: a new empty dict each time."""


def _declare(kind: Kind, default: Any) -> Any:
    return Field("", kind, default)


def bit(default: bool = False) -> bool:
    """Declare a bit; adjacent bits share a byte, the first in its lowest bit."""
    return cast("bool", _declare(Kind.BIT, default))


def octet(default: int = 0) -> int:
    """Declare an unsigned integer of one byte."""
    return cast("int", _declare(Kind.OCTET, default))


def short(default: int = 0) -> int:
    """Declare an unsigned integer of two bytes."""
    return cast("int", _declare(Kind.SHORT, default))


def long(default: int = 0) -> int:
    """Declare an unsigned integer of four bytes."""
    return cast("int", _declare(Kind.LONG, default))


def longlong(default: int = 0) -> int:
    """Declare an unsigned integer of eight bytes."""
    return cast("int", _declare(Kind.LONGLONG, default))


def shortstr(default: str = "") -> str:
    """Declare a string of at most 255 bytes in UTF-8."""
    return cast("str", _declare(Kind.SHORTSTR, default))


def longstr(default: bytes = b"") -> bytes:
    """Declare bytes, with a length of four bytes."""
    return cast("bytes", _declare(Kind.LONGSTR, default))


def table() -> Table:
    """Declare a field table; empty by default."""
    return cast("Table", _declare(Kind.TABLE, None))


@dataclass_transform(frozen_default=True, field_specifiers=())
class _MethodType(type):
    """Collects the declared arguments of a class and gives it slots for them."""

    def __new__(
        cls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        class_id: int = 0,
        method_id: int = 0,
        content: bool = False,
    ) -> "_MethodType":
        declared = {key: item for key, item in namespace.items() if isinstance(item, Field)}
        for key in declared:
            del namespace[key]
        inherited = [field for base in bases for field in getattr(base, "FIELDS", ())]
        own = [item._replace(name=key) for key, item in declared.items()]
        namespace["__slots__"] = tuple(declared)
        namespace["FIELDS"] = (*inherited, *own)
        namespace["CLASS_ID"] = class_id
        namespace["METHOD_ID"] = method_id
        namespace["INDEX"] = class_id << 16 | method_id
        namespace["HAS_CONTENT"] = content
        return super().__new__(cls, name, bases, namespace)


class Method(metaclass=_MethodType):
    """A method of the protocol, with its arguments."""

    FIELDS: ClassVar[tuple[Field, ...]]
    CLASS_ID: ClassVar[int]
    METHOD_ID: ClassVar[int]
    INDEX: ClassVar[int]
    """Class and method id in one number, as on the wire."""
    HAS_CONTENT: ClassVar[bool]
    """Whether a content header and a body follow."""

    def __init__(self, *values: Any, **named: Any) -> None:
        # The constructor is generated with the first instance: most classes never need one.
        constructor = _constructor(type(self))
        type.__setattr__(type(self), "__init__", constructor)
        constructor(self, *values, **named)

    @classmethod
    def _names(cls) -> list[str]:
        return [field.name for field in cls.FIELDS]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, key) == getattr(other, key) for key in self._names())

    __hash__ = None  # type: ignore[assignment]  # a table cannot be hashed

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._names())
        return f"{method_name(type(self))}({values})"


def method_name(cls: type[Method]) -> str:
    """The name as in the specification, such as `basic.Ack`."""
    return f"{cls.__module__.rpartition('.')[2]}.{cls.__name__}"


def _constructor(cls: type[Method]) -> Any:
    """Generate `__init__`, which sets the slots by their descriptors: instances are immutable."""
    arguments, lines = [], []
    scope: dict[str, Any] = {}
    for field in cls.FIELDS:
        arguments.append(f"{field.name}={field.default!r}")
        scope[f"set_{field.name}"] = getattr(cls, field.name).__set__
        value = field.name
        if field.kind is Kind.TABLE:
            value = f"{{}} if {field.name} is None else {field.name}"
        lines.append(f"    set_{field.name}(self, {value})")
    source = "\n".join(
        [f"def __init__({', '.join(['self', *arguments])}):", *lines, "    return None"]
    )
    exec(source, scope)  # noqa: S102 - the source is made of declarations only
    return scope["__init__"]
