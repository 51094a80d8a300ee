"""Bytes that are no requests, or half of one: the broker hangs up and serves the others."""

import struct

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.raw import ConnectionClosed, RawClient, encode_request
from tests.conftest import Target

SHORT_S, METADATA, API_VERSIONS = 0.3, 3, 18
MIB = 1 << 20


def length(size: int) -> bytes:
    return struct.pack(">i", size)


def request(api_key: int, version: int, body: bytes = b"", *, flexible: bool = False) -> bytes:
    """A frame with a header of its own making, correlation id 77 and no client id."""
    tagged_fields = b"\0" if flexible else b""
    header = struct.pack(">hhih", api_key, version, 77, -1) + tagged_fields
    return length(len(header + body)) + header + body


def still_serves(target: Target) -> bool:
    """Whether a new connection works."""
    with RawClient(target.bootstrap_servers) as other:
        return bool(other.call("api_versions", 0).error_code == ErrorCode.none)


NO_REQUESTS = {
    "an empty frame": length(0),
    "a negative length": length(-1),
    "the most negative length": length(-(2**31)),
    "the largest length": length(2**31 - 1),
    "one byte above the limit": length(100 * MIB + 1),
    "a web browser": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS hello": bytes.fromhex("16030102000100 01fc0303".replace(" ", "")),
    "a frame of three bytes": length(3) + b"abc",
    "a header without its client id": length(8) + struct.pack(">hhi", API_VERSIONS, 0, 1),
    "zeros": bytes(64),
    "ones": b"\xff" * 64,
}


@pytest.mark.parametrize("data", NO_REQUESTS.values(), ids=NO_REQUESTS)
def test_what_is_no_request_closes_the_connection(
    target: Target, client: RawClient, data: bytes
) -> None:
    client.send_bytes(data)
    assert client.is_closed_by_the_broker()
    assert still_serves(target)


UNKNOWN = {
    "an unknown api key": request(999, 0),
    "a negative api key": request(-1, 0),
    "a request between brokers": request(4, 0),
    "a version too new": request(METADATA, 99),
    "a negative version": request(METADATA, -1),
    "a version too old": request(1, 3),
    "an unfinished version": request(22, 6, flexible=True),
    "a produce version only advertised": request(0, 2, struct.pack(">hii", 1, 1000, 0)),
}


@pytest.mark.parametrize("data", UNKNOWN.values(), ids=UNKNOWN)
def test_an_unknown_request_or_version_closes_the_connection(
    target: Target, client: RawClient, data: bytes
) -> None:
    client.send_bytes(data)
    assert client.is_closed_by_the_broker()
    assert still_serves(target)


MALFORMED = {
    "a body that ends too soon": request(METADATA, 12, b"\0", flexible=True),
    "an array longer than the frame": request(METADATA, 1, length(2**31 - 1)),
    "a string longer than the frame": request(METADATA, 1, struct.pack(">ih", 1, 30_000)),
    "a null where none may be": request(METADATA, 1, struct.pack(">ih", 1, -1)),
    "a varint without end": request(METADATA, 12, b"\xff" * 10, flexible=True),
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_body_closes_the_connection(
    target: Target, client: RawClient, data: bytes
) -> None:
    client.send_bytes(data)
    assert client.is_closed_by_the_broker()
    assert still_serves(target)


@pytest.mark.parametrize("sent", [0, 3, 4, 10])
def test_half_a_request_is_waited_for(target: Target, client: RawClient, sent: int) -> None:
    frame = request(API_VERSIONS, 0)
    client.send_bytes(frame[:sent])
    assert not client.is_closed_by_the_broker(within_s=SHORT_S)
    assert still_serves(target)
    client.socket.settimeout(10)
    client.send_bytes(frame[sent:])
    assert client.receive_frame()[:6] == struct.pack(">ih", 77, 0)


def test_a_request_may_come_byte_by_byte(client: RawClient) -> None:
    for byte in request(API_VERSIONS, 0):
        client.send_bytes(bytes([byte]))
    assert client.receive_frame()[:6] == struct.pack(">ih", 77, 0)


def test_hanging_up_in_the_middle_of_a_request_harms_no_other_client(target: Target) -> None:
    for sent in (2, 4, 9):
        with RawClient(target.bootstrap_servers) as client:
            client.send_bytes(request(API_VERSIONS, 0)[:sent])
    assert still_serves(target)


def test_bytes_after_the_body_are_ignored(client: RawClient) -> None:
    client.send_bytes(request(METADATA, 1, length(0) + b"extra"))
    assert client.receive_frame()[:4] == struct.pack(">i", 77)


def test_unknown_tagged_fields_are_skipped(client: RawClient) -> None:
    header_tags, body_tags = b"\1\x07\2ab", b"\1\x63\1z"
    empty_topics_and_flags = b"\1\0\0"
    frame = struct.pack(">hhih", METADATA, 12, 77, -1) + header_tags
    client.send_frame(frame + empty_topics_and_flags + body_tags)
    assert client.receive_frame()[:4] == struct.pack(">i", 77)


@pytest.mark.parametrize("client_id", [b"", b"x" * 1000, "müller".encode()])
def test_any_client_id_will_do(client: RawClient, client_id: bytes) -> None:
    header = struct.pack(">hhih", API_VERSIONS, 0, 77, len(client_id)) + client_id
    client.send_frame(header)
    assert client.receive_frame()[:6] == struct.pack(">ih", 77, 0)


def test_requests_may_be_sent_ahead_and_are_answered_in_order(client: RawClient) -> None:
    software = {"client_software_name": "x", "client_software_version": "1"}
    ids = [client.send("api_versions", 3, **software) for _ in range(50)]
    answers = [client.receive("api_versions", 3, one) for one in ids]
    assert {answer.error_code for answer in answers} == {ErrorCode.none}


def test_many_requests_may_arrive_in_one_piece(client: RawClient) -> None:
    frame = encode_request("api_versions", 0, 5)
    client.send_bytes((length(len(frame)) + frame) * 20)
    assert len({client.receive_frame() for _ in range(20)}) == 1


def test_nothing_is_answered_after_a_bad_frame(client: RawClient) -> None:
    frame = encode_request("api_versions", 0, 5)
    client.send_bytes(length(-1) + length(len(frame)) + frame)
    with pytest.raises(ConnectionClosed):
        client.receive_frame()
