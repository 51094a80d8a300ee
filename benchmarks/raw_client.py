"""A client that sends ready-made requests and does nothing else, so that it is not what is measured.

Every connection has one request in flight and sends its next one when the response has come.
"""

import random
import selectors
import socket
import statistics
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks.clients import clicks
from strom.wire.kafka.codec import decode, encode
from strom.wire.kafka.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from strom.wire.kafka.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from strom.wire.kafka.records import Record, build_batch
from strom.wire.kafka.schema import Request

PRODUCE_VERSION = 11
FETCH_VERSION = 12
"""The last versions that name topics, so that their ids need not be known."""
ACKS_ALL = -1
RESPONSE_HEADER_BYTES = 9
"""Length, correlation id, no tags."""
_RECEIVE_BYTES = 1 << 20
_KEPT_BYTES = 256
"""As much of every answer is kept, to be looked at when the time is over."""
_STALL_SECONDS = 30
_WARM_UP = 0.2
"""The share of the time at the beginning that does not count."""
_FEWEST_REQUESTS = 20
"""A machine may be too busy for so many within the time; of fewer, percentiles say nothing."""


class Latency(NamedTuple):
    """What single requests saw."""

    requests_per_second: float
    requests: int
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True)
class ProduceRequests:
    """Produce small batches with acks=all, one request at a time on each connection."""

    bootstrap_servers: str
    topic: str
    seconds: float
    connections: int = 1
    partitions: int = 1
    records_per_request: int = 1
    record_bytes: int = 100

    def __call__(self) -> Latency:
        """How long the requests took."""
        frames = [[self._frame(number % self.partitions)] for number in range(self.connections)]
        return drive(self.bootstrap_servers, frames, self.seconds, _check_produced)

    def _frame(self, partition: int) -> bytes:
        now_ms = int(time.time() * 1000)
        values = clicks(self.record_bytes, self.records_per_request)
        batch = build_batch([Record(at, now_ms, None, value) for at, value in enumerate(values)])
        data = PartitionProduceData(index=partition, records=memoryview(batch))
        topic = TopicProduceData(name=self.topic, partition_data=[data])
        request = ProduceRequest(acks=ACKS_ALL, timeout_ms=30_000, topic_data=[topic])
        return frame(request, PRODUCE_VERSION)


@dataclass(frozen=True)
class RandomFetches:
    """Fetch one batch each from random offsets of a partition, on one connection."""

    bootstrap_servers: str
    topic: str
    seconds: float
    end_offset: int

    def __call__(self) -> Latency:
        """How long the requests took."""
        source = random.Random(self.end_offset)
        frames = [self._frame(source.randrange(self.end_offset)) for _ in range(5000)]
        return drive(self.bootstrap_servers, [frames], self.seconds, _check_fetched)

    def _frame(self, offset: int) -> bytes:
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1)
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1,
            session_epoch=-1,
            topics=[FetchTopic(topic=self.topic, partitions=[wanted])],
        )
        return frame(request, FETCH_VERSION)


def frame(request: Request, version: int) -> bytes:
    """A request with its header, as it goes over the wire; for flexible versions."""
    header = struct.pack(">hhih", request.SCHEMA.api_key, version, 7, -1) + b"\0"
    body = encode(request, version)
    return struct.pack(">i", len(header) + len(body)) + header + body


@dataclass
class _Line:
    """One connection: the requests it sends in turn, and what it waits for."""

    link: socket.socket
    frames: Sequence[bytes]
    sent: int = 0
    sent_at: float = 0.0
    parts: list[bytes] = field(default_factory=list)
    received: int = 0

    def send(self) -> None:
        self.parts.clear()
        self.received = 0
        request = self.frames[self.sent % len(self.frames)]
        self.sent += 1
        self.sent_at = time.perf_counter()
        # A request is far smaller than a socket's buffer, which is empty now.
        if self.link.send(request) != len(request):
            raise RuntimeError("the request did not fit the socket's buffer")

    def receive(self) -> bytes | None:
        """The answer, once it is whole."""
        part = self.link.recv(_RECEIVE_BYTES)
        if not part:
            raise RuntimeError("the broker closed the connection")
        self.parts.append(part)
        self.received += len(part)
        answer = part if len(self.parts) == 1 else b"".join(self.parts)
        if self.received < 4 or self.received < 4 + int.from_bytes(answer[:4], "big"):
            return None
        return answer


def drive(
    bootstrap_servers: str,
    frames: Sequence[Sequence[bytes]],
    seconds: float,
    check: Callable[[bytes], None],
) -> Latency:
    """Keep one request in flight per connection for this long, or longer if few responses came.

    When it is over, `check` gets the start of each response, and raises if that is an error.
    """
    host, _, port = bootstrap_servers.partition(":")
    lines = [_Line(_connect(host, int(port)), one) for one in frames]
    selector = selectors.DefaultSelector()
    for line in lines:
        selector.register(line.link, selectors.EVENT_READ, line)
    latencies: list[float] = []
    answers: list[bytes] = []
    began = time.perf_counter()
    counts_from, ends = began + seconds * _WARM_UP, began + seconds
    now = began
    for line in lines:
        line.send()
    while now < ends or len(latencies) < _FEWEST_REQUESTS:
        ready = selector.select(_STALL_SECONDS)
        if not ready:
            raise RuntimeError("the broker does not answer")
        for key, _ in ready:
            line = key.data
            answer = line.receive()
            if answer is not None:
                now = time.perf_counter()
                if now >= counts_from:
                    latencies.append(now - line.sent_at)
                answers.append(answer[:_KEPT_BYTES])
                line.send()
    selector.close()
    for line in lines:
        line.link.close()
    for answer in answers:
        check(answer)
    return _summary(latencies, now - counts_from)


def _connect(host: str, port: int) -> socket.socket:
    link = socket.create_connection((host, port))
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return link


def _summary(latencies: list[float], seconds: float) -> Latency:
    percentiles = statistics.quantiles(latencies, n=100)
    return Latency(
        requests_per_second=len(latencies) / seconds,
        requests=len(latencies),
        p50_ms=percentiles[49] * 1000,
        p99_ms=percentiles[98] * 1000,
    )


def _check_produced(answer: bytes) -> None:
    view = memoryview(answer)
    response = decode(ProduceResponse, PRODUCE_VERSION, view, RESPONSE_HEADER_BYTES)
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                raise RuntimeError(f"a produce request failed with code {partition.error_code}")


def _check_fetched(answer: bytes) -> None:
    if len(answer) == _KEPT_BYTES:
        return  # the rest was not kept: an answer without records is shorter
    response = decode(FetchResponse, FETCH_VERSION, memoryview(answer), RESPONSE_HEADER_BYTES)
    for topic in response.responses:
        for partition in topic.partitions:
            if partition.error_code or not partition.records:
                raise RuntimeError(f"a fetch gave no records, code {partition.error_code}")
    if response.error_code or not response.responses:
        raise RuntimeError(f"a fetch failed with code {response.error_code}")
