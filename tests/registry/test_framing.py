import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strom.registry.framing import (
    NotFramed,
    frame,
    frame_message_indexes,
    unframe,
    unframe_message_indexes,
)

IDS = st.integers(0, 2**31 - 1)
PATHS = st.lists(st.integers(0, 10_000), min_size=1, max_size=6)


@given(IDS, st.binary())
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_framed_comes_out_again(schema_id, payload):
    assert unframe(frame(schema_id, payload)) == (schema_id, payload)


@given(PATHS, st.binary())
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_path_of_message_indexes_comes_out_again(path, payload):
    assert unframe_message_indexes(frame_message_indexes(path, payload)) == (tuple(path), payload)


@given(PATHS)
@settings(deadline=None)
def test_message_indexes_are_written_as_confluents_serializer_writes_them(path):
    from io import BytesIO

    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer

    judge = BytesIO()
    ProtobufSerializer._encode_varints(judge, path, zigzag=True)
    expected = b"\x00" if path == [0] else judge.getvalue()
    assert frame_message_indexes(path, b"") == expected


@pytest.mark.parametrize("data", [b"", b"\x00\x00\x00\x00", b"\x01\x00\x00\x00\x01x", b'{"a": 1}'])
def test_other_bytes_are_not_taken_for_a_schema_id(data):
    with pytest.raises(NotFramed):
        unframe(data)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x04\x00", b"\xff\xff\xff\xff\xff\xff", b"\x03"])
def test_a_broken_path_of_indexes_is_reported(data):
    with pytest.raises(NotFramed):
        unframe_message_indexes(data)
