import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strom.model.errors import ProtocolError
from strom.wire.kafka.codec import decode, encode, encode_parts
from strom.wire.kafka.messages import REQUESTS, RESPONSES
from strom.wire.kafka.messages.k00_produce import ProduceRequest

EVERY_MESSAGE_AND_VERSION = [
    pytest.param(cls, version, id=f"{cls.__name__}-v{version}")
    for cls in [*REQUESTS.values(), *RESPONSES.values()]
    for version in range(cls.SCHEMA.versions.first, cls.SCHEMA.versions.last + 1)
]


@pytest.mark.parametrize(("cls", "version"), EVERY_MESSAGE_AND_VERSION)
@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_what_is_written_is_read_back(cls, version, data, messages_of):
    message = data.draw(messages_of(cls, version))
    written = encode(message, version)
    assert decode(cls, version, memoryview(written)) == message
    assert b"".join(encode_parts(message, version)) == written


@pytest.mark.parametrize(("cls", "version"), EVERY_MESSAGE_AND_VERSION)
def test_every_field_of_a_version_is_carried(cls, version, filled):
    message = filled(cls, version)
    assert decode(cls, version, memoryview(encode(message, version))) == message


@pytest.mark.parametrize(("cls", "version"), EVERY_MESSAGE_AND_VERSION)
def test_a_message_of_defaults_is_carried(cls, version):
    assert decode(cls, version, memoryview(encode(cls(), version))) == cls()


def test_a_message_is_read_from_a_position_on():
    body = encode(ProduceRequest(acks=1), 9)
    assert decode(ProduceRequest, 9, memoryview(b"header" + body), 6).acks == 1


@pytest.mark.parametrize("version", [-1, 2, 14])
def test_a_version_that_does_not_exist_is_refused_both_ways(version):
    with pytest.raises(ProtocolError, match="no version"):
        decode(ProduceRequest, version, memoryview(b""))
    with pytest.raises(ProtocolError, match="no version"):
        encode(ProduceRequest(), version)
