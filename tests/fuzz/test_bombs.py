"""Small messages that would become large ones, and clients that never finish a sentence."""

import gzip
import itertools
import socket
import struct
import threading
import time

import cramjam
import pytest

from strom.testing import BrokerProcess
from strom.wire.kafka.batch import HEADER_BYTES, checksum
from strom.wire.kafka.codec import decode, encode
from strom.wire.kafka.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from strom.wire.kafka.records import Record, build_batch
from strom.wire.kafka.varints import varint
from tests.conformance.raw import RawClient
from tests.fuzz.clients import PATIENCE_SECONDS, HealthyClient
from tests.fuzz.conftest import HEALTHY_TOPIC, Victim
from tests.fuzz.requests import api_versions_frame

MIB = 1024 * 1024
MAX_GROWTH_MIB = 256
"""At its peak, for the largest request that is read at all."""


class PeakMemory:
    """Watches how much memory a broker takes while something is done to it."""

    def __init__(self, victim: Victim) -> None:
        self.victim = victim
        self.before = victim.memory_mib()
        self.peak = self.before
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def growth_mib(self) -> float:
        return self.peak - self.before

    def _watch(self) -> None:
        while not self._stop.wait(0.005):
            self.peak = max(self.peak, self.victim.memory_mib())


def talk(victim: Victim, data: bytes, *, trusted: bool = True) -> bytes:
    """Send bytes and return all that comes back until the broker hangs up or falls silent."""
    with RawClient(victim.address, PATIENCE_SECONDS) as client:
        connected = client.socket
        if trusted:
            client.send_bytes(api_versions_frame(1))
            client.receive_frame()
        received = bytearray()
        try:
            connected.sendall(data)
            connected.settimeout(10)
            while chunk := connected.recv(65536):
                received += chunk
                if len(received) >= 4 + int.from_bytes(received[:4], "big"):
                    break
        except ConnectionError:
            pass
        return bytes(received)


def framed(api_key: int, version: int, body: bytes) -> bytes:
    frame = struct.pack(">hhi", api_key, version, 1) + b"\xff\xff" + body
    return struct.pack(">i", len(frame)) + frame


MANY = varint(2**32 - 1)
ASKED = 200_000
"""Few enough to be read, many enough to hurt if each were answered at length."""
FRAMES = {
    "the settings of one broker, again and again": framed(
        32,
        1,
        struct.pack(">i", ASKED)
        + b"\4\0\1"
        + b"1\xff\xff\xff\xff"
        + (b"\4\0\0011\xff\xff\xff\xff" * (ASKED - 1))
        + b"\0",
    ),
    "one topic, again and again": framed(
        3, 1, struct.pack(">i", ASKED) + b"\0\x08fuzzed-a" * ASKED
    ),
    "offsets of one partition, again and again": framed(
        2,
        1,
        b"\xff\xff\xff\xff"
        + struct.pack(">i", 1)
        + b"\0\x08fuzzed-a"
        + struct.pack(">i", ASKED)
        + struct.pack(">iq", 0, 5) * ASKED,
    ),
    "one partition to fetch, again and again": framed(
        1,
        4,
        struct.pack(">iiiib", -1, 0, 0, 2**31 - 1, 0)
        + struct.pack(">i", 1)
        + b"\0\x08fuzzed-a"
        + struct.pack(">i", ASKED)
        + struct.pack(">iqi", 0, 0, 2**20) * ASKED,
    ),
    "partitions that are not there": framed(
        1,
        4,
        struct.pack(">iiiib", -1, 0, 0, 2**31 - 1, 0)
        + struct.pack(">i", 1)
        + b"\0\x08fuzzed-a"
        + struct.pack(">i", ASKED)
        + b"".join(struct.pack(">iqi", number, 0, 2**20) for number in range(ASKED)),
    ),
    "one topic to create, again and again": framed(
        19,
        2,
        struct.pack(">i", 100_000)
        + (b"\0\x08fuzzed-a" + struct.pack(">ihii", 1, 1, 0, 0)) * 100_000
        + bytes(5),
    ),
    "tagged fields in the header": framed(18, 3, MANY),
    "tagged fields in the header, all there": framed(18, 3, varint(200_000) + b"\1\0" * 200_000),
    "tagged fields in the body": framed(
        18, 3, b"\0" + b"\2a\2b" + varint(150_000) + b"\5\0" * 150_000
    ),
    "topics in a compact array": framed(3, 12, b"\0" + MANY),
    "topics without end": framed(3, 1, struct.pack(">i", 2**31 - 1)),
    "empty topic names": framed(3, 1, struct.pack(">i", 2 * MIB - 32) + b"\0\0" * (2 * MIB - 32)),
    "topics to create": framed(19, 5, b"\0" + varint(300_000) + b"\1" * 3_900_000),
    "partitions to fetch": framed(
        1, 4, bytes(17) + struct.pack(">i", 300_000) + b"\0\0\0\0\0\0" * 300_000
    ),
    "topics to produce to": framed(
        0,
        8,
        b"\xff\xff"
        + struct.pack(">hi", 1, 1000)
        + struct.pack(">i", 12 * MIB // 6)
        + b"\0\0\0\0\0\0" * (12 * MIB // 6),
    ),
    "configs to describe": framed(
        32, 1, struct.pack(">i", 500_000) + b"\2\0\0\xff\xff\xff\xff" * 500_000 + b"\0"
    ),
    "offsets to list": framed(
        2, 1, b"\xff\xff\xff\xff" + struct.pack(">i", 600_000) + bytes(3_600_000)
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FRAMES)
def test_counts_do_not_become_memory(victim, name):
    with HealthyClient(victim.address, HEALTHY_TOPIC) as healthy, PeakMemory(victim) as memory:
        talk(victim, FRAMES[name])
        time.sleep(0.1)
    print(f"{name}: {memory.growth_mib:.0f} MiB, {healthy.slowest_seconds:.2f} s")
    victim.check_alive()
    assert memory.growth_mib < MAX_GROWTH_MIB


def bomb(codec: int, packed: bytes, records: int) -> bytes:
    """A batch whose compressed part is given as it is."""
    batch = build_batch([Record(0, time.time_ns() // 1_000_000, b"k", b"v")], codec=codec)
    data = bytearray(batch[:HEADER_BYTES]) + packed
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">i", data, 23, records - 1)
    struct.pack_into(">i", data, 57, records)
    struct.pack_into(">I", data, 17, checksum(data, 0, len(data)))
    return bytes(data)


NOTHING_MUCH = 512 * MIB
"""What a bomb of a megabyte or less would become."""
BOMBS = {
    "gzip": (1, lambda zeros: gzip.compress(zeros, 9)),
    "snappy": (2, lambda zeros: bytes(cramjam.snappy.compress_raw(zeros[: 16 * MIB]))),
    "a snappy length that lies": (2, lambda _: varint(2**31 - 1) + b"\0\0"),
    "lz4": (3, lambda zeros: bytes(cramjam.lz4.compress(zeros[: 200 * MIB]))),
    "zstd": (4, lambda zeros: bytes(cramjam.zstd.compress(zeros, 19))),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("topic", ["fuzzed-compacted", "fuzzed-a"])
def test_decompression_bombs_do_not_go_off(victim, name, topic):
    codec, pack = BOMBS[name]
    batch = bomb(codec, pack(bytes(NOTHING_MUCH)), records=1000)
    assert len(batch) < MIB, "it would be refused for its size"
    request = ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[PartitionProduceData(index=0, records=memoryview(batch))],
            )
        ],
    )
    with HealthyClient(victim.address, HEALTHY_TOPIC) as healthy, PeakMemory(victim) as memory:
        for _ in range(5):
            received = talk(victim, framed(0, 8, encode(request, 8)))
            answer = decode(ProduceResponse, 8, memoryview(received), 8)
            partition = answer.responses[0].partition_responses[0]
            assert partition.error_code != 0 or topic == "fuzzed-a"
    print(f"{name}: {memory.growth_mib:.0f} MiB, {healthy.slowest_seconds:.2f} s")
    victim.check_alive()
    assert memory.growth_mib < MAX_GROWTH_MIB


@pytest.mark.slow
def test_five_hundred_clients_that_never_finish_a_sentence_are_let_go(seed):
    """Each sends one byte at a time of a request that it declares to be large."""
    with BrokerProcess(settings={"socket.frame.deadline.ms": "1500"}) as server:
        victim = Victim(server)
        server_memory = victim.memory_mib()
        slow = [RawClient(victim.address, PATIENCE_SECONDS).socket for _ in range(500)]
        sentence = itertools.chain(struct.pack(">i", 400_000), itertools.repeat(0))
        deadline = time.monotonic() + 30
        try:
            while slow:
                byte = bytes([next(sentence)])
                slow = [each for each in slow if _still_open(each, byte)]
                assert time.monotonic() < deadline, f"{len(slow)} are still there"
                time.sleep(0.1)
        finally:
            for each in slow:
                each.close()
        growth = victim.memory_mib() - server_memory
        print(f"{growth:.1f} MiB for 500 connections")
        assert growth < 64
        assert talk(victim, api_versions_frame(2))
        victim.check_alive()


def _still_open(connected: socket.socket, byte: bytes) -> bool:
    try:
        connected.sendall(byte)
        connected.setblocking(False)
        assert connected.recv(1) == b"", "an answer to half a request"
    except BlockingIOError:
        connected.setblocking(True)
        return True
    except OSError:
        pass
    connected.close()
    return False
