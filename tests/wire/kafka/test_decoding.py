import random
import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strom.model.errors import ProtocolError
from strom.wire.kafka.codec import decode, encode
from strom.wire.kafka.messages import REQUESTS, RESPONSES
from strom.wire.kafka.messages.k00_produce import ProduceRequest
from strom.wire.kafka.messages.k03_metadata import MetadataRequest, MetadataResponse
from strom.wire.kafka.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from strom.wire.kafka.messages.k20_delete_topics import DeleteTopicsRequest
from strom.wire.kafka.messages.k37_create_partitions import CreatePartitionsRequest

EVERY_MESSAGE = [*REQUESTS.values(), *RESPONSES.values()]
EVERY_MESSAGE_AND_ENCODING = [
    pytest.param(cls, version, id=f"{cls.__name__}-v{version}")
    for cls in EVERY_MESSAGE
    for version in sorted({cls.SCHEMA.versions.first, cls.SCHEMA.versions.last})
]


def decode_or_refuse(cls, version, raw):
    """Anything but a value and a ProtocolError comes out as it is, and fails the test."""
    try:
        return decode(cls, version, memoryview(raw))
    except ProtocolError:
        return None


def peak_bytes(action):
    """The least of three, for threads of other tests' servers may allocate meanwhile."""
    return min(_peak_bytes_once(action) for _ in range(3))


def _peak_bytes_once(action):
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("cls", "version"), EVERY_MESSAGE_AND_ENCODING)
def test_every_truncation_is_refused(cls, version, filled):
    whole = encode(filled(cls, version), version)
    for length in range(len(whole)):
        with pytest.raises(ProtocolError):
            decode(cls, version, memoryview(whole)[:length])


@pytest.mark.parametrize(("cls", "version"), EVERY_MESSAGE_AND_ENCODING)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=10, deadline=None)
def test_damaged_bytes_give_a_value_or_a_refusal(cls, version, seed, filled):
    chance = random.Random(seed)
    whole = bytearray(encode(filled(cls, version), version)) or bytearray(1)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(whole))
        damage = chance.choice([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00", b"\x80\x80"])
        whole[at : at + chance.randint(0, len(damage))] = damage
    decode_or_refuse(cls, version, whole)


@pytest.mark.parametrize("cls", EVERY_MESSAGE)
@given(raw=st.binary(max_size=300), data=st.data())
@settings(max_examples=20, deadline=None)
def test_any_bytes_give_a_value_or_a_refusal(cls, raw, data):
    version = data.draw(st.integers(*cls.SCHEMA.versions))
    decode_or_refuse(cls, version, raw)


@pytest.mark.parametrize(("cls", "version"), EVERY_MESSAGE_AND_ENCODING)
def test_memory_stays_in_proportion_to_the_bytes(cls, version, filled):
    whole = encode(filled(cls, version), version)
    decode_or_refuse(cls, version, whole)  # the code is generated before anything is measured
    chance = random.Random(1)
    for at in range(0, len(whole), max(1, len(whole) // 40)):
        bomb = bytearray(whole)
        bomb[at : at + 4] = chance.choice([b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07"])
        peak = peak_bytes(lambda bomb=bomb: decode_or_refuse(cls, version, bomb))
        assert peak < 100 * len(bomb) + 50_000


@pytest.mark.parametrize("declared", [1001, 2**20, 2**31 - 1])
def test_a_count_that_the_bytes_cannot_hold_allocates_nothing(declared):
    bomb = struct.pack(">i", declared) + bytes(2000)
    with pytest.raises(ProtocolError, match="topics has an invalid count"):
        decode(MetadataRequest, 0, memoryview(bomb))
    assert peak_bytes(lambda: decode_or_refuse(MetadataRequest, 0, bomb)) < 10_000


def test_the_densest_honest_array_costs_a_bounded_factor():
    # Two bytes make an assignment with an empty list, the most objects that bytes can buy.
    assignments = 20_000
    count = bytes([0x80 | (assignments + 1) & 0x7F, 0x80 | (assignments + 1) >> 7 & 0x7F, 1])
    bomb = b"\x02" + b"\x02t" + bytes(4) + count + b"\x01\x00" * assignments + b"\0" + bytes(6)
    read = decode(CreatePartitionsRequest, 3, memoryview(bomb))
    assert read.topics[0].assignments is not None
    assert len(read.topics[0].assignments) == assignments
    assert peak_bytes(lambda: decode_or_refuse(CreatePartitionsRequest, 3, bomb)) < 100 * len(bomb)


@pytest.mark.parametrize(("cls", "body"), [(MetadataRequest, 10), (ApiVersionsRequest, 3)])
@pytest.mark.parametrize(("tags", "accepted"), [(64, True), (65, False), (2**28, False)])
def test_at_most_64_unknown_tagged_fields_are_skipped(cls, body, tags, accepted):
    without = encode(cls(), body)
    assert without[-1] == 0
    number = bytes([tags]) if tags < 128 else b"\x80\x80\x80\x80\x01"
    raw = without[:-1] + number + b"\x63\x00" * min(tags, 1000)
    assert (decode_or_refuse(cls, body, raw) is not None) == accepted


@pytest.mark.parametrize(("tags", "accepted"), [(68, True), (69, False)])
def test_known_tagged_fields_do_not_count_as_unknown(tags, accepted):
    raw = encode(ApiVersionsResponse(), 3)[:-1] + bytes([tags]) + b"\x63\x00" * tags
    assert (decode_or_refuse(ApiVersionsResponse, 3, raw) is not None) == accepted


def test_an_unknown_tagged_field_beside_known_ones_is_skipped():
    known = encode(ApiVersionsResponse(finalized_features_epoch=7), 3)
    assert known[-11:-8] == b"\x01\x01\x08"
    raw = known[:-11] + b"\x02" + known[-10:] + b"\x63\x03abc"
    assert decode(ApiVersionsResponse, 3, memoryview(raw)).finalized_features_epoch == 7


def test_a_tagged_field_of_the_wrong_size_is_refused():
    raw = bytearray(encode(ApiVersionsResponse(finalized_features_epoch=7), 3))
    raw[-9] = 7
    with pytest.raises(ProtocolError, match="does not match the size of its tag"):
        decode(ApiVersionsResponse, 3, memoryview(raw))


def test_a_varint_of_more_than_five_bytes_is_refused():
    with pytest.raises(ProtocolError, match="varint"):
        decode(MetadataRequest, 9, memoryview(b"\xff" * 6 + b"\x01"))


@pytest.mark.parametrize("message", [MetadataRequest(), MetadataResponse()])
def test_bytes_after_a_message_are_left_alone(message):
    raw = encode(message, 9) + b"\0"
    assert decode(type(message), 9, memoryview(raw)) == message


def test_a_string_of_more_than_32767_bytes_is_refused():
    # Only a flexible version can declare such a length at all: here 32767 and 32768, plus one.
    raw = encode(DeleteTopicsRequest(topic_names=["x" * 32767]), 5)
    longer = raw.replace(b"\x80\x80\x02x", b"\x81\x80\x02xx")
    assert len(longer) == len(raw) + 1
    with pytest.raises(ProtocolError, match="topic_names has an invalid length"):
        decode(DeleteTopicsRequest, 5, memoryview(longer))


@pytest.mark.parametrize("version", [1, 5])
def test_text_that_is_not_utf8_is_refused(version):
    raw = encode(DeleteTopicsRequest(topic_names=["name"]), version).replace(b"name", b"n\xffme")
    with pytest.raises(ProtocolError, match="UTF-8"):
        decode(DeleteTopicsRequest, version, memoryview(raw))


@pytest.mark.parametrize("length", [-2, -32768])
def test_a_negative_length_other_than_null_is_refused(length):
    raw = struct.pack(">hhi", length, 1, 0) + struct.pack(">i", 0)
    with pytest.raises(ProtocolError, match="transactional_id"):
        decode(ProduceRequest, 3, memoryview(raw))


def test_null_is_refused_where_the_version_does_not_allow_it():
    with pytest.raises(ProtocolError, match="topics has an invalid count"):
        decode(MetadataRequest, 0, memoryview(struct.pack(">i", -1)))
    assert decode(MetadataRequest, 1, memoryview(struct.pack(">i", -1))).topics is None


def test_records_are_a_view_into_the_frame(filled):
    frame = bytearray(encode(filled(ProduceRequest, 9), 9))
    records = decode(ProduceRequest, 9, memoryview(frame)).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame
