"""Large fetch answers go from the file to the socket, on both kinds of event loop."""

import asyncio
import socket
import struct
from typing import cast

import pytest
from confluent_kafka import Producer

from strom.testing import local_broker
from strom.wire.kafka.batch import headers
from strom.wire.kafka.codec import decode, encode
from strom.wire.kafka.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from strom.wire.kafka.records import read_records

VERSION = 11
RECORDS = 6000
VALUES = [b"%06d" % number + bytes([number % 251]) * 1500 for number in range(RECORDS)]


@pytest.fixture(params=["uvloop", "asyncio"])
def broker(request, monkeypatch):
    if request.param == "asyncio":
        monkeypatch.setattr(local_broker, "loop_factory", lambda: asyncio.new_event_loop)
    with local_broker.LocalBroker() as running:
        producer = Producer({"bootstrap.servers": running.bootstrap_servers})
        for value in VALUES:
            producer.produce("t", value)
        assert producer.flush(60) == 0
        yield running


def fetch_frame(offset: int) -> bytes:
    request = FetchRequest(
        max_wait_ms=1000,
        min_bytes=1,
        max_bytes=2**31 - 1,
        topics=[
            FetchTopic(
                topic="t",
                partitions=[
                    FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=2**31 - 1)
                ],
            )
        ],
    )
    body = struct.pack(">hhih4s", 1, VERSION, 7, 4, b"test") + encode(request, VERSION)
    return struct.pack(">i", len(body)) + body


def receive(client: socket.socket, piece: int) -> FetchResponse:
    client.settimeout(30)
    (size,) = struct.unpack(">i", client.recv(4, socket.MSG_WAITALL))
    data = bytearray()
    while len(data) < size:
        data += client.recv(min(piece, size - len(data)))
    assert struct.unpack_from(">i", data) == (7,)
    return decode(FetchResponse, VERSION, memoryview(data), 4)


@pytest.mark.parametrize("piece", [3000, 1 << 20])
def test_every_byte_arrives_however_slowly_the_client_reads(broker, piece):
    host, port = broker.bootstrap_servers.split(":")
    values: list[bytes | None] = []
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        client.connect((host, int(port)))
        while len(values) < RECORDS:
            client.sendall(fetch_frame(len(values)))
            (topic,) = receive(client, piece).responses
            records = cast("memoryview", topic.partitions[0].records)
            for position, header in headers(records):
                values += [
                    record.value
                    for record in read_records(records, position, header)
                    if record.offset >= len(values)
                ]
    assert values == VALUES


def test_a_client_that_leaves_amid_a_large_answer_leaves_no_file_open(broker):
    host, port = broker.bootstrap_servers.split(":")
    for _ in range(5):
        with socket.socket() as client:
            client.connect((host, int(port)))
            client.sendall(fetch_frame(0))
            assert client.recv(100)
    with socket.socket() as client:
        client.connect((host, int(port)))
        client.sendall(fetch_frame(0))
        assert receive(client, 1 << 20).responses
