"""The functions that declare the fields of messages (see `schema.py`).

Each returns a declaration, but claims to return the value that the field will hold: a type checker
then compares the declaration with the annotation beside it.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, cast, overload

from strom.wire.kafka.schema import (
    FRESH,
    NO_UUID,
    ArrayOf,
    Field,
    Fresh,
    Scalar,
    Struct,
    Uuid,
    parse_versions,
)

INT32_MIN = -(2**31)
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

S = TypeVar("S", bound=Struct)
T = TypeVar("T")


@dataclass(frozen=True)
class Element(Generic[T]):
    """A scalar as the element of an array, with the type of its values."""

    scalar: Scalar


STRING = Element[str](Scalar.STRING)
INT8 = Element[int](Scalar.INT8)
INT32 = Element[int](Scalar.INT32)
INT64 = Element[int](Scalar.INT64)


def _field(
    kind: Scalar | ArrayOf | type[Struct],
    versions: str,
    default: T | Fresh | None,
    *,
    nullable: str = "none",
    ignorable: bool = False,
    tag: int | None = None,
) -> T:
    in_versions, null_in = parse_versions(versions), parse_versions(nullable)
    return cast("T", Field("", kind, in_versions, null_in, default, ignorable, tag))


def boolean(
    versions: str = "0+", *, default: bool = False, ignorable: bool = False, tag: int | None = None
) -> bool:
    """Declare a boolean of one byte."""
    return _field(Scalar.BOOLEAN, versions, default, ignorable=ignorable, tag=tag)


def _integer(
    kind: Scalar,
    versions: str = "0+",
    *,
    default: int = 0,
    ignorable: bool = False,
    tag: int | None = None,
) -> int:
    """Declare an integer, of as many bits as the name says; signed unless the name says otherwise."""
    return _field(kind, versions, default, ignorable=ignorable, tag=tag)


int8 = partial(_integer, Scalar.INT8)
int16 = partial(_integer, Scalar.INT16)
uint16 = partial(_integer, Scalar.UINT16)
int32 = partial(_integer, Scalar.INT32)
int64 = partial(_integer, Scalar.INT64)


def uuid(versions: str = "0+", *, ignorable: bool = False, tag: int | None = None) -> Uuid:
    """Declare an id of 16 bytes; all zeros mean none."""
    return _field(Scalar.UUID, versions, NO_UUID, ignorable=ignorable, tag=tag)


@overload
def string(versions: str = "0+", *, default: str = "", ignorable: bool = False) -> str: ...
@overload
def string(
    versions: str = "0+",
    *,
    nullable: str,
    default: str | None = "",
    ignorable: bool = False,
    tag: int | None = None,
) -> str | None: ...
def string(
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: str | None = "",
    ignorable: bool = False,
    tag: int | None = None,
) -> str | None:
    """Declare a string of at most 32767 bytes in UTF-8."""
    return _field(Scalar.STRING, versions, default, nullable=nullable, ignorable=ignorable, tag=tag)


@overload
def blob(versions: str = "0+", *, ignorable: bool = False) -> bytes: ...
@overload
def blob(
    versions: str = "0+", *, nullable: str, default: bytes | None = b"", ignorable: bool = False
) -> bytes | None: ...
def blob(
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: bytes | None = b"",
    ignorable: bool = False,
) -> bytes | None:
    """Declare bytes that are opaque to the protocol."""
    return _field(Scalar.BYTES, versions, default, nullable=nullable, ignorable=ignorable)


def record_batches(versions: str = "0+", *, nullable: str = "0+") -> Any:
    """Declare record batches: a view into the frame when read, any buffers when written."""
    return _field(Scalar.RECORDS, versions, None, nullable=nullable)


@overload
def array(
    element: type[T] | Element[T],
    versions: str = "0+",
    *,
    ignorable: bool = False,
    tag: int | None = None,
) -> list[T]: ...
@overload
def array(
    element: type[T] | Element[T],
    versions: str = "0+",
    *,
    nullable: str,
    default: Fresh | None = FRESH,
    ignorable: bool = False,
    tag: int | None = None,
) -> list[T] | None: ...
def array(
    element: Any,
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: Fresh | None = FRESH,
    ignorable: bool = False,
    tag: int | None = None,
) -> list[Any] | None:
    """Declare a list of structs, or of one of the scalars above; empty by default."""
    kind = ArrayOf(element.scalar if isinstance(element, Element) else element)
    return _field(kind, versions, default, nullable=nullable, ignorable=ignorable, tag=tag)


def struct(kind: type[S], versions: str = "0+") -> S:
    """Declare a struct that is always present."""
    return _field(kind, versions, FRESH)


def optional_struct(
    kind: type[S],
    versions: str = "0+",
    *,
    nullable: str = "none",
    tag: int | None = None,
) -> S | None:
    """Declare a struct that may be missing: a tagged one, or one that can be null."""
    return _field(kind, versions, None, nullable=nullable, tag=tag)
