"""Values for every message, derived from the declarations."""

from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any

import pytest
from hypothesis import strategies as st

from strom.wire.kafka.schema import ArrayOf, Field, Scalar, Struct

INTEGER_BITS = {Scalar.INT8: 8, Scalar.INT16: 16, Scalar.INT32: 32, Scalar.INT64: 64}

Kind = Scalar | ArrayOf | type[Struct]


def carried(cls: type[Struct], version: int) -> list[Field]:
    return [field for field in cls.SCHEMA.fields if version in field.versions]


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@cache
def any_struct(cls: type[Struct], version: int) -> st.SearchStrategy[Any]:
    values = {field.name: any_field(field, version) for field in carried(cls, version)}
    return st.fixed_dictionaries(values).map(lambda chosen: cls(**chosen))


def any_field(field: Field, version: int) -> st.SearchStrategy[Any]:
    values = any_value(field.type, version)
    tagged_struct = field.tag is not None and isinstance(field.type, type)
    if version in field.nullable or tagged_struct:
        return st.none() | values
    return values


def any_value(kind: Kind, version: int) -> st.SearchStrategy[Any]:
    if isinstance(kind, ArrayOf):
        return st.lists(any_value(kind.element, version), max_size=3)
    if not isinstance(kind, Scalar):
        return any_struct(kind, version)
    if kind in INTEGER_BITS:
        return integers(INTEGER_BITS[kind])
    return {
        Scalar.UINT16: st.integers(0, 2**16 - 1),
        Scalar.BOOLEAN: st.booleans(),
        Scalar.UUID: st.binary(min_size=16, max_size=16),
        Scalar.STRING: st.text(st.characters(codec="utf-8"), max_size=200),
        Scalar.BYTES: st.binary(max_size=200),
        Scalar.RECORDS: st.binary(max_size=400).map(lambda raw: memoryview(raw)),
    }[kind]


def filled_struct(cls: type[Struct], version: int, numbers: "count[int]") -> Any:
    values = {f.name: filled_value(f.type, version, numbers) for f in carried(cls, version)}
    return cls(**values)


def filled_value(kind: Kind, version: int, numbers: "count[int]") -> Any:
    if isinstance(kind, ArrayOf):
        return [filled_value(kind.element, version, numbers) for _ in range(2)]
    if not isinstance(kind, Scalar):
        return filled_struct(kind, version, numbers)
    number = next(numbers)
    if kind in INTEGER_BITS:
        return number % 100 + 1
    return {
        Scalar.UINT16: 2**16 - number,
        Scalar.BOOLEAN: True,
        Scalar.UUID: number.to_bytes(16, "big"),
        Scalar.STRING: f"text-{number}",
        Scalar.BYTES: b"bytes-%d" % number,
        Scalar.RECORDS: memoryview(b"records-%d" % number),
    }[kind]


@pytest.fixture(scope="session")
def messages_of() -> Callable[[type[Struct], int], st.SearchStrategy[Any]]:
    """The strategy for all values that a version of a message can carry."""
    return any_struct


@pytest.fixture(scope="session")
def filled() -> Callable[[type[Struct], int], Any]:
    """One message in which every field that the version has is set to something of its own."""
    return lambda cls, version: filled_struct(cls, version, count(1))
