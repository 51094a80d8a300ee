import pytest

from strom.model.errors import ProtocolError
from strom.wire.kafka.codec import decode, encode, encode_parts
from strom.wire.kafka.messages.k00_produce import (
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from strom.wire.kafka.messages.k01_fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
    ReplicaState,
)
from strom.wire.kafka.messages.k03_metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
)
from strom.wire.kafka.messages.k18_api_versions import ApiVersion, ApiVersionsResponse
from strom.wire.kafka.messages.k20_delete_topics import DeleteTopicsRequest


def fetch_response(*records):
    partitions = [PartitionData(partition_index=i, records=r) for i, r in enumerate(records)]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])


def test_known_bytes_of_a_rigid_version():
    answer = ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)])
    assert encode(answer, 0).hex(" ") == "00 00 00 00 00 01 00 12 00 00 00 04"


def test_known_bytes_of_a_flexible_version():
    answer = ApiVersionsResponse(
        api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)], finalized_features_epoch=7
    )
    expected = "00 00 02 00 12 00 00 00 04 00 00 00 00 00 01 01 08 00 00 00 00 00 00 00 07"
    assert encode(answer, 3).hex(" ") == expected


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_records_are_passed_through_uncopied(version):
    first, second = bytearray(b"first"), memoryview(b"second")
    parts = encode_parts(fetch_response(first, second), version)
    assert any(part is first for part in parts)
    assert any(part is second for part in parts)


@pytest.mark.parametrize("version", [4, 12])
def test_records_in_several_pieces_are_written_as_one_field(version):
    pieces = [b"one", memoryview(b"two"), bytearray(b"three" * 100)]
    whole = b"onetwo" + b"three" * 100
    written = encode(fetch_response(pieces), version)
    assert written == encode(fetch_response(whole), version)
    read = decode(FetchResponse, version, memoryview(written))
    assert read.responses[0].partitions[0].records == whole


@pytest.mark.parametrize("version", [4, 12])
def test_no_records_and_null_records_differ(version):
    written = encode(fetch_response(b"", None, []), version)
    read = decode(FetchResponse, version, memoryview(written)).responses[0].partitions
    assert [partition.records for partition in read] == [b"", None, b""]


def test_an_ignorable_field_is_dropped_where_the_version_lacks_it():
    message = MetadataResponse(cluster_id="c", throttle_time_ms=5)
    assert encode(message, 0) == encode(MetadataResponse(), 0)


def test_a_field_that_may_not_be_dropped_is_refused_where_the_version_lacks_it():
    with pytest.raises(ProtocolError, match=r"allow_auto_topic_creation.*version 3"):
        encode(MetadataRequest(allow_auto_topic_creation=False), 3)


def test_a_tagged_struct_is_refused_where_the_version_lacks_it():
    request = FetchRequest(replica_state=ReplicaState(replica_id=1))
    with pytest.raises(ProtocolError, match="replica_state"):
        encode(request, 14)


def test_a_nested_field_that_may_not_be_dropped_is_refused():
    leader = LeaderIdAndEpoch(leader_id=1)
    partition = PartitionProduceResponse(current_leader=leader)
    message = ProduceResponse(responses=[TopicProduceResponse(partition_responses=[partition])])
    with pytest.raises(ProtocolError, match="current_leader"):
        encode(message, 9)


def test_null_is_refused_where_the_version_does_not_allow_it():
    message = MetadataResponse(topics=[MetadataResponseTopic(name=None)])
    encode(message, 12)
    with pytest.raises(ProtocolError, match="cannot be encoded"):
        encode(message, 11)


@pytest.mark.parametrize("version", [1, 5])
def test_a_string_of_more_than_32767_bytes_is_refused(version):
    encode(DeleteTopicsRequest(topic_names=["x" * 32767]), version)
    with pytest.raises(ProtocolError):
        encode(DeleteTopicsRequest(topic_names=["x" * 32768]), version)


@pytest.mark.parametrize(
    "field", [{"timeout_ms": 2**31}, {"timeout_ms": "soon"}, {"topic_names": ["\ud800"]}]
)
def test_a_value_that_does_not_fit_its_type_is_refused(field):
    with pytest.raises(ProtocolError, match="cannot be encoded"):
        encode(DeleteTopicsRequest(**field), 5)
