"""Clients that mean no good, and one that does."""

import itertools
import struct
import threading
import time
from types import TracebackType
from typing import Self

from strom.client.connection_settings import ConnectionSettings
from strom.client.protocol_client import ProtocolClient
from strom.wire.kafka.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from strom.wire.kafka.records import Record, build_batch
from strom.wire.kafka.schema import Versions
from tests.conformance.raw import ConnectionClosed, RawClient
from tests.fuzz.requests import api_versions_frame

FETCH = 1
SHARE_FETCH = 78
PATIENCE_SECONDS = 20
PROBE = 0x7ABCDEF0
BY_NAME = Versions(3, 12)
"""Later versions of Produce name topics by their ids."""


class Attacker:
    """Sends frames; after each the broker must have hung up, or still answer a plain question."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._address = bootstrap_servers
        self._client: RawClient | None = None
        self.answered = 0
        self.refused = 0

    def send(self, frame: bytes) -> None:
        """Send one frame, and see that the broker neither hangs nor dies of it."""
        if self._client is None:
            self._client = RawClient(self._address, PATIENCE_SECONDS)
        (key,) = struct.unpack_from(">h", frame, 4) if len(frame) >= 6 else (None,)
        may_wait = key in (FETCH, SHARE_FETCH) or not is_whole(frame)
        self._client.socket.settimeout(0.02 if may_wait else PATIENCE_SECONDS)
        try:
            self._client.send_bytes(frame + api_versions_frame(PROBE))
            while not self._client.receive_frame().startswith(struct.pack(">i", PROBE)):
                pass
            self.answered += 1
        except TimeoutError:
            # For records, or for the rest of the frame, the broker rightly waits.
            assert may_wait, f"the broker hangs on {frame.hex()}"
            self.close()
        except (ConnectionError, ConnectionClosed):
            self.refused += 1
            self.close()

    def close(self) -> None:
        """Hang up."""
        if self._client is not None:
            self._client.socket.close()
            self._client = None


def is_whole(frame: bytes) -> bool:
    """Whether the length in front of a frame is that of the frame."""
    return len(frame) - 4 == int.from_bytes(frame[:4], "big", signed=True)


class HealthyClient:
    """Produces one record after the other to a topic of its own, while others do harm."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.slowest_seconds = 0.0
        self.produced = 0
        self.problem: BaseException | None = None
        self._address = bootstrap_servers
        self._topic = topic
        self._first = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="healthy")

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._first.wait(PATIENCE_SECONDS), self.problem
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        if error is None:
            assert self.problem is None, self.problem

    def _run(self) -> None:
        try:
            with ProtocolClient(ConnectionSettings(self._address), "healthy") as client:
                for number in itertools.count():
                    if self._stop.wait(0.02):
                        return
                    began = time.monotonic()
                    self._produce(client, number)
                    took = time.monotonic() - began
                    self.slowest_seconds = max(self.slowest_seconds, took)
                    self.produced += 1
                    self._first.set()
        except BaseException as problem:  # noqa: BLE001 - raised by __exit__
            self.problem = problem

    def _produce(self, client: ProtocolClient, number: int) -> None:
        now_ms = time.time_ns() // 1_000_000
        batch = build_batch([Record(0, now_ms, None, b"%d" % number)])
        data = PartitionProduceData(index=0, records=memoryview(batch))
        request = ProduceRequest(
            acks=-1,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=self._topic, partition_data=[data])],
        )
        response = client.call(
            request, ProduceResponse, versions=BY_NAME, timeout_s=PATIENCE_SECONDS
        )
        assert response.responses[0].partition_responses[0].error_code == 0
        assert response.responses[0].partition_responses[0].base_offset == number
