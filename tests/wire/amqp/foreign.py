"""The same methods in the eyes of pamqp and pika."""

import inspect
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pamqp.commands
import pika.spec

from strom.model.tables import Timestamp
from strom.wire.amqp.schema import Kind, Method


def encoded_by_pika(method: Method) -> bytes:
    cls = pika.spec.methods[method.INDEX]
    theirs: Any = cls.__new__(cls)
    for name, field in zip(inspect.signature(cls).parameters, method.FIELDS, strict=True):
        value = getattr(method, field.name)
        setattr(theirs, name, as_pika_has_it(value) if field.kind is Kind.TABLE else value)
    pieces: list[bytes] = theirs.encode()
    return method.INDEX.to_bytes(4, "big") + b"".join(pieces)


def pika_agrees(method: Method) -> bool:
    """Whether it has nothing in it that pika writes in its own way."""
    return "Decimal" not in repr(method)


def as_pika_has_it(value: Any) -> Any:
    """Its timestamps are dates, and an integer that it is to write as `l` is a `long`."""
    if isinstance(value, dict):
        return {name: as_pika_has_it(item) for name, item in value.items()}
    if isinstance(value, list):
        return [as_pika_has_it(item) for item in value]
    if isinstance(value, Timestamp):
        return datetime.fromtimestamp(value, UTC)
    return value


@cache
def _without_validation(cls: Any) -> Any:
    # pamqp refuses what is deprecated, though it can write it.
    return type(cls.__name__, (cls,), {"validate": lambda self: None, "__slots__": cls.__slots__})


def encoded_by_pamqp(method: Method) -> bytes:
    cls = _without_validation(pamqp.commands.INDEX_MAPPING[method.INDEX])
    theirs: Any = cls.__new__(cls)
    for name, field in zip(cls.__slots__, method.FIELDS, strict=True):
        value = getattr(method, field.name)
        setattr(theirs, name, as_pamqp_has_it(value, field.kind))
    arguments: bytes = theirs.marshal()
    return method.INDEX.to_bytes(4, "big") + arguments


def as_pamqp_has_it(value: Any, kind: Kind = Kind.TABLE) -> Any:
    """Its long strings are text, its bytes are bytearrays."""
    if kind is Kind.LONGSTR:
        return value.decode()
    if kind is not Kind.TABLE:
        return value
    if isinstance(value, dict):
        return {name: as_pamqp_has_it(item) for name, item in value.items()}
    if isinstance(value, list):
        return [as_pamqp_has_it(item) for item in value]
    if isinstance(value, bytes):
        return bytearray(value)
    return as_pika_has_it(value)


def in_order(method: Method) -> Method:
    """The same with its tables sorted by name, as pamqp writes them."""
    return type(method)(*(sorted_tables(getattr(method, f.name)) for f in method.FIELDS))


def sorted_tables(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: sorted_tables(item) for name, item in sorted(value.items())}
    if isinstance(value, list):
        return [sorted_tables(item) for item in value]
    return value
