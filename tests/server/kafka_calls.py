"""A node on a disk in memory, and a client that knows nothing but the wire."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from strom.app import Node
from strom.broker.broker import Broker
from strom.model.broker_settings import BrokerSettings
from strom.model.clock import Clock
from strom.storage.files import FileSystem
from strom.testing import ManualClock, MemoryFiles
from strom.wire.kafka.codec import decode, encode
from strom.wire.kafka.header import request_header, response_header
from strom.wire.kafka.messages import RESPONSES
from strom.wire.kafka.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from strom.wire.kafka.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from strom.wire.kafka.records import Record, build_batch
from strom.wire.kafka.schema import Request

R = TypeVar("R")


class Caller:
    """One connection that sends requests and reads answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._correlation_id = 0

    @classmethod
    async def connect(cls, bootstrap_servers: str) -> "Caller":
        host, port = bootstrap_servers.split(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    async def call(self, request: Request, version: int) -> Any:
        """Send a request and return its answer."""
        await self.send(request, version)
        return await self.receive(request, version)

    async def send(self, request: Request, version: int) -> None:
        """Send a request."""
        self._correlation_id += 1
        self.writer.write(frame_of(request, version, self._correlation_id))
        await self.writer.drain()

    async def receive(self, request: Request, version: int) -> Any:
        """The answer to a request sent before."""
        async with asyncio.timeout(20):
            size = int.from_bytes(await self.reader.readexactly(4), "big")
            frame = await self.reader.readexactly(size)
        key = request.SCHEMA.api_key
        start = len(response_header(key, version, 0))
        return decode(RESPONSES[key], version, memoryview(frame), start)

    async def is_closed(self) -> bool:
        """Whether the broker hangs up."""
        async with asyncio.timeout(10):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True

    def leave(self) -> None:
        """Hang up."""
        self.writer.transport.abort()


def frame_of(request: Request, version: int, correlation_id: int = 1) -> bytes:
    """A request as it goes over the wire, its length in front."""
    header = request_header(request.SCHEMA.api_key, version, correlation_id, "test")
    frame = header + encode(request, version)
    return len(frame).to_bytes(4, "big") + frame


def produce_request(now_ms: int, *places: tuple[str, int, bytes], acks: int = -1) -> ProduceRequest:
    """One record for each (topic, partition, value)."""
    return ProduceRequest(
        acks=acks,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[
                    PartitionProduceData(
                        index=index,
                        records=memoryview(build_batch([Record(0, now_ms, None, value)])),
                    )
                ],
            )
            for topic, index, value in places
        ],
    )


def create_request(name: str, partitions: int = 1, **configs: str) -> CreateTopicsRequest:
    """Create one topic; settings go by their names with underscores for dots."""
    return CreateTopicsRequest(
        timeout_ms=10_000,
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=1,
                configs=[
                    CreatableTopicConfig(name=key.replace("_", "."), value=value)
                    for key, value in configs.items()
                ],
            )
        ],
    )


class RunningNode:
    """A node and its address."""

    def __init__(self, node: Node, bootstrap_servers: str) -> None:
        self.node = node
        self.bootstrap_servers = bootstrap_servers
        self._callers: list[Caller] = []

    @property
    def broker(self) -> Broker:
        """The broker inside."""
        assert self.node._broker is not None
        return self.node._broker

    def pull_the_plug(self, files: MemoryFiles) -> None:
        """The power goes; the node can no longer write anything, and what was not synced may go."""
        self.broker.directory.fail(OSError("the power went"))
        files.crash()

    async def caller(self) -> Caller:
        """A new connection."""
        caller = await Caller.connect(self.bootstrap_servers)
        self._callers.append(caller)
        return caller

    def leave(self) -> None:
        """Let all connections go."""
        for caller in self._callers:
            caller.leave()


@asynccontextmanager
async def running_node(
    files: FileSystem | None = None, clock: Clock | None = None, **settings: Any
) -> AsyncIterator[RunningNode]:
    """A node on a free port, by default on a disk in memory and with a clock that stands still."""
    node = Node(
        BrokerSettings(**{"data": "data", "port": 0, "amqp_port": 0, **settings}),
        files=files or MemoryFiles(),
        clock=clock or ManualClock(),
    )
    ready = await node.start()
    running = RunningNode(node, ready.bootstrap_servers)
    try:
        yield running
    finally:
        running.leave()
        await node.stop()
