"""kio, written by others from the same definitions, must read our bytes and write the same ones."""

import datetime as dt
import io
import uuid
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from strom.model.errors import ErrorCode
from strom.wire.kafka.codec import decode, encode
from strom.wire.kafka.messages import REQUESTS, RESPONSES
from strom.wire.kafka.schema import NO_UUID, ArrayOf, Request, Scalar, Struct

EVERY_MESSAGE_AND_VERSION = [
    pytest.param(cls, version, id=f"{cls.__name__}-v{version}")
    for cls in [*REQUESTS.values(), *RESPONSES.values()]
    for version in range(cls.SCHEMA.versions.first, cls.SCHEMA.versions.last + 1)
]
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MILLISECOND = dt.timedelta(milliseconds=1)
# kio reads these as times, durations or enumerations, which hold fewer values than the wire does.
MAX_TIME_MS = 4_102_444_800_000
TIMES = {"log_append_time_ms", "max_timestamp", "transaction_start_time_ms"}


def kio_schema(cls: type[Struct], version: int) -> Any:
    load = load_request_schema if issubclass(cls, Request) else load_response_schema
    return load(cls.SCHEMA.api_key, version)


def carried(cls: type[Struct], version: int) -> list[Any]:
    return [field for field in cls.SCHEMA.fields if version in field.versions]


def made_readable_for_kio(message: Any, version: int) -> Any:
    """Bring the values that kio cannot hold into its ranges, in place."""
    for field in carried(type(message), version):
        value = getattr(message, field.name)
        if field.name.endswith("error_code"):
            setattr(message, field.name, list(ErrorCode)[value % len(ErrorCode)])
        elif field.name in TIMES or (field.type is Scalar.INT64 and field.name.endswith("_ms")):
            setattr(message, field.name, value % MAX_TIME_MS)
        elif isinstance(value, Struct):
            if value == type(value)() and field.tag is not None:
                setattr(message, field.name, None)  # kio leaves tags out that say nothing new
            else:
                made_readable_for_kio(value, version)
        elif isinstance(field.type, ArrayOf) and isinstance(field.type.element, type):
            for element in value or []:
                made_readable_for_kio(element, version)
    return message


def plain(value: Any) -> Any:
    """A value of kio's in the form in which we hold it."""
    if isinstance(value, tuple):
        return [plain(element) for element in value]
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, dt.timedelta):
        return value // MILLISECOND
    if isinstance(value, dt.datetime):
        return (value - EPOCH) // MILLISECOND
    return value


def assert_same(ours: Any, theirs: Any, version: int) -> None:
    our_fields, their_fields = carried(type(ours), version), fields(theirs)
    assert len(our_fields) == len(their_fields)
    for our_field, their_field in zip(our_fields, their_fields, strict=True):
        assert our_field.name.removesuffix("_ms") == their_field.name.removesuffix("_ms")
        our_value = getattr(ours, our_field.name)
        their_value = getattr(theirs, their_field.name)
        if isinstance(our_value, Struct):
            assert_same(our_value, their_value, version)
        elif isinstance(our_field.type, type):
            assert their_value is None or their_value == type(their_value)()
        elif isinstance(our_field.type, ArrayOf) and isinstance(our_field.type.element, type):
            assert (our_value is None) == (their_value is None)
            for one, other in zip(our_value or [], their_value or [], strict=True):
                assert_same(one, other, version)
        elif their_value is None and our_field.type is Scalar.UUID:
            assert our_value == NO_UUID
        elif their_value is None and our_field.name in TIMES:
            assert our_value == -1
        else:
            assert our_value == plain(their_value)


def compare(message: Any, version: int) -> None:
    written = encode(message, version)
    schema = kio_schema(type(message), version)
    theirs, size = entity_reader(schema)(written, 0)
    assert size == len(written)
    assert_same(message, theirs, version)
    rewritten = io.BytesIO()
    entity_writer(schema)(rewritten, theirs)
    assert rewritten.getvalue() == written
    assert decode(type(message), version, memoryview(rewritten.getvalue())) == message


@pytest.mark.parametrize(("cls", "version"), EVERY_MESSAGE_AND_VERSION)
def test_kio_reads_every_field_as_we_wrote_it(cls, version, filled):
    compare(made_readable_for_kio(filled(cls, version), version), version)


@pytest.mark.parametrize(("cls", "version"), EVERY_MESSAGE_AND_VERSION)
@given(data=st.data())
@settings(max_examples=5, deadline=None)
def test_kio_writes_the_same_bytes(cls, version, data, messages_of):
    message = data.draw(messages_of(cls, version))
    compare(made_readable_for_kio(message, version), version)
