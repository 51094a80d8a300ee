"""ApiVersions: the first request of every client, and the one that must never fail."""

import struct

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.offered import ADVERTISED, NOT_ON_ONE_NODE, NOT_YET
from tests.conformance.raw import API_KEYS, RawClient, encode_request
from tests.conftest import Target

SOFTWARE = {"client_software_name": "conformance", "client_software_version": "1.0"}


def test_kafkas_versions_of_every_request_are_advertised(client: RawClient) -> None:
    answer = client.call("api_versions", 4, **SOFTWARE)
    advertised = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
    assert {api: advertised.get(API_KEYS[api]) for api in ADVERTISED} == ADVERTISED


@pytest.mark.oracle
def test_everything_else_is_advertised_as_by_kafka(
    strom_server: Target, kafka_server: Target
) -> None:
    ranges = {}
    for server in (strom_server, kafka_server):
        with RawClient(server.bootstrap_servers) as client:
            ranges[server.name] = {
                one.api_key: (one.min_version, one.max_version)
                for one in client.call("api_versions", 4, **SOFTWARE).api_keys
            }
    missing = {key: ranges["kafka"][key] for key in NOT_YET | NOT_ON_ONE_NODE}
    assert ranges["strom"] | missing == ranges["kafka"]
    assert not ranges["strom"].keys() & missing.keys()


def test_no_request_is_advertised_twice(client: RawClient) -> None:
    keys = [one.api_key for one in client.call("api_versions", 4, **SOFTWARE).api_keys]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("version", [5, 99, -1])
def test_an_unknown_version_is_answered_in_version_0_with_the_range_that_works(
    client: RawClient, version: int
) -> None:
    frame = bytearray(encode_request("api_versions", 3, 77, **SOFTWARE))
    struct.pack_into(">h", frame, 2, version)
    client.send_frame(bytes(frame))
    answer = client.receive_frame()
    correlation_id, error, keys = struct.unpack_from(">ihi", answer)
    assert (correlation_id, error) == (77, ErrorCode.unsupported_version)
    entries = [struct.unpack_from(">hhh", answer, 10 + 6 * index) for index in range(keys)]
    assert (API_KEYS["api_versions"], *ADVERTISED["api_versions"]) in entries
    assert client.call("api_versions", 0).error_code == ErrorCode.none


@pytest.mark.parametrize("name", ["", "  ", "-starts-with-a-dash", "has space"])
def test_a_malformed_software_name_is_an_invalid_request(client: RawClient, name: str) -> None:
    answer = client.call("api_versions", 3, client_software_name=name, client_software_version="1")
    assert answer.error_code == ErrorCode.invalid_request
    assert client.call("api_versions", 3, **SOFTWARE).error_code == ErrorCode.none


def test_transactions_of_version_2_are_announced(client: RawClient) -> None:
    answer = client.call("api_versions", 4, **SOFTWARE)
    supported = {one.name: (one.min_version, one.max_version) for one in answer.supported_features}
    finalized = {
        one.name: (one.min_version_level, one.max_version_level)
        for one in answer.finalized_features
    }
    assert supported["transaction.version"] == (0, 2)
    assert finalized["transaction.version"] == (2, 2)
    assert answer.finalized_features_epoch >= 0


def test_clients_that_cannot_read_the_level_0_do_not_get_it(client: RawClient) -> None:
    answer = client.call("api_versions", 3, **SOFTWARE)
    assert all(one.min_version > 0 for one in answer.supported_features)
    assert "transaction.version" in {one.name for one in answer.finalized_features}
