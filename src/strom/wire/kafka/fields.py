"""The functions that declare the fields of messages (see `schema.py`).

Each returns a declaration, but claims to return the value that the field will hold: a type checker
then compares the declaration with the annotation beside it.
"""

from typing import Any, TypeVar, overload

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


def _field(
    kind: Scalar | ArrayOf | type[Struct],
    versions: str,
    default: Any,
    *,
    nullable: str = "none",
    ignorable: bool = False,
    tag: int | None = None,
) -> Any:
    in_versions, null_in = parse_versions(versions), parse_versions(nullable)
    return Field("", kind, in_versions, null_in, default, ignorable, tag)


def boolean(
    versions: str = "0+", *, default: bool = False, ignorable: bool = False, tag: int | None = None
) -> bool:
    """Declare a boolean of one byte."""
    field: bool = _field(Scalar.BOOLEAN, versions, default, ignorable=ignorable, tag=tag)
    return field


def int8(
    versions: str = "0+", *, default: int = 0, ignorable: bool = False, tag: int | None = None
) -> int:
    """Declare a signed integer of one byte."""
    field: int = _field(Scalar.INT8, versions, default, ignorable=ignorable, tag=tag)
    return field


def int16(
    versions: str = "0+", *, default: int = 0, ignorable: bool = False, tag: int | None = None
) -> int:
    """Declare a signed integer of two bytes; error codes are this."""
    field: int = _field(Scalar.INT16, versions, default, ignorable=ignorable, tag=tag)
    return field


def int32(
    versions: str = "0+", *, default: int = 0, ignorable: bool = False, tag: int | None = None
) -> int:
    """Declare a signed integer of four bytes."""
    field: int = _field(Scalar.INT32, versions, default, ignorable=ignorable, tag=tag)
    return field


def int64(
    versions: str = "0+", *, default: int = 0, ignorable: bool = False, tag: int | None = None
) -> int:
    """Declare a signed integer of eight bytes."""
    field: int = _field(Scalar.INT64, versions, default, ignorable=ignorable, tag=tag)
    return field


def uuid(versions: str = "0+", *, ignorable: bool = False, tag: int | None = None) -> Uuid:
    """Declare an id of 16 bytes; all zeros mean none."""
    field: Uuid = _field(Scalar.UUID, versions, NO_UUID, ignorable=ignorable, tag=tag)
    return field


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
    field: str | None = _field(
        Scalar.STRING, versions, default, nullable=nullable, ignorable=ignorable, tag=tag
    )
    return field


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
    field: bytes | None = _field(
        Scalar.BYTES, versions, default, nullable=nullable, ignorable=ignorable
    )
    return field


def record_batches(versions: str = "0+", *, nullable: str = "0+") -> Any:
    """Declare record batches: a view into the frame when read, any buffers when written."""
    return _field(Scalar.RECORDS, versions, None, nullable=nullable)


@overload
def array(
    element: type[S], versions: str = "0+", *, ignorable: bool = False, tag: int | None = None
) -> list[S]: ...
@overload
def array(
    element: type[S],
    versions: str = "0+",
    *,
    nullable: str,
    default: Fresh | None = FRESH,
    ignorable: bool = False,
) -> list[S] | None: ...
def array(
    element: type[S],
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: Fresh | None = FRESH,
    ignorable: bool = False,
    tag: int | None = None,
) -> list[S] | None:
    """Declare a list of structs; empty by default."""
    kind = ArrayOf(element)
    field: list[S] | None = _field(
        kind, versions, default, nullable=nullable, ignorable=ignorable, tag=tag
    )
    return field


@overload
def string_array(versions: str = "0+", *, ignorable: bool = False) -> list[str]: ...
@overload
def string_array(
    versions: str = "0+",
    *,
    nullable: str,
    default: Fresh | None = FRESH,
    ignorable: bool = False,
) -> list[str] | None: ...
def string_array(
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: Fresh | None = FRESH,
    ignorable: bool = False,
) -> list[str] | None:
    """Declare a list of strings; empty by default."""
    kind = ArrayOf(Scalar.STRING)
    field: list[str] | None = _field(
        kind, versions, default, nullable=nullable, ignorable=ignorable
    )
    return field


@overload
def int32_array(versions: str = "0+", *, ignorable: bool = False) -> list[int]: ...
@overload
def int32_array(
    versions: str = "0+",
    *,
    nullable: str,
    default: Fresh | None = FRESH,
    ignorable: bool = False,
    tag: int | None = None,
) -> list[int] | None: ...
def int32_array(
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: Fresh | None = FRESH,
    ignorable: bool = False,
    tag: int | None = None,
) -> list[int] | None:
    """Declare a list of four-byte integers, mostly partitions or brokers; empty by default."""
    kind = ArrayOf(Scalar.INT32)
    field: list[int] | None = _field(
        kind, versions, default, nullable=nullable, ignorable=ignorable, tag=tag
    )
    return field


def int8_array(versions: str = "0+", *, ignorable: bool = False) -> list[int]:
    """Declare a list of one-byte integers; empty by default."""
    field: list[int] = _field(ArrayOf(Scalar.INT8), versions, FRESH, ignorable=ignorable)
    return field


def int64_array(versions: str = "0+", *, ignorable: bool = False) -> list[int]:
    """Declare a list of eight-byte integers; empty by default."""
    field: list[int] = _field(ArrayOf(Scalar.INT64), versions, FRESH, ignorable=ignorable)
    return field


def struct(kind: type[S], versions: str = "0+") -> S:
    """Declare a struct that is always present."""
    field: S = _field(kind, versions, FRESH)
    return field


def optional_struct(
    kind: type[S],
    versions: str = "0+",
    *,
    nullable: str = "none",
    tag: int | None = None,
) -> S | None:
    """Declare a struct that may be missing: a tagged one, or one that can be null."""
    field: S | None = _field(kind, versions, None, nullable=nullable, tag=tag)
    return field
