"""Frames that are not as they should be, and handlers that fail."""

import asyncio
import dataclasses
import logging
import struct

import pytest

from strom.model.errors import ErrorCode
from strom.server.kafka.api import HANDLERS, PendingResponse
from strom.testing import ManualClock
from strom.wire.kafka.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from strom.wire.kafka.messages.k03_metadata import MetadataRequest
from strom.wire.kafka.messages.k18_api_versions import ApiVersionsRequest
from tests.server.kafka_calls import Caller, create_request, frame_of, produce_request, running_node

NOW = ManualClock().now_ms()
METADATA = MetadataRequest.SCHEMA.api_key


def run(test):
    asyncio.run(asyncio.wait_for(test, 60))


def framed(api_key: int, version: int, body: bytes = b"") -> bytes:
    frame = struct.pack(">hhi", api_key, version, 7) + b"\xff\xff" + body
    return struct.pack(">i", len(frame)) + frame


async def is_refused(caller: Caller, data: bytes) -> bool:
    caller.writer.write(data)
    return await caller.is_closed()


@pytest.mark.parametrize(
    "data",
    [
        framed(9999, 0),
        framed(-1, 0),
        framed(METADATA, 99),
        framed(METADATA, -1),
        framed(METADATA, 0),  # no body
        framed(METADATA, 0, b"\x7f\xff\xff\xff"),  # two thousand million topics
        framed(METADATA, 1, b"\xff\xff\xff\xfe"),  # minus two of them
        framed(METADATA, 0, b"\0\0\0\1\x7f\xff"),  # a name that ends too early
        framed(METADATA, 0, b"\0\0\0\1\0\2\xff\xfe"),  # a name that is no text
        struct.pack(">i", 3) + b"\0\0\0",  # half a header
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a TLS hello
    ],
)
def test_a_wrong_frame_closes_its_own_connection_only(data):
    async def test():
        async with running_node() as node:
            other = await node.caller()
            assert await is_refused(await node.caller(), data)
            answer = await other.call(MetadataRequest(topics=None), 9)
            assert answer.brokers

    run(test())


def test_an_unknown_version_of_api_versions_is_answered_in_version_0():
    async def test():
        async with running_node() as node:
            caller = await node.caller()
            caller.writer.write(framed(18, 99, b"\0\1\2\3"))
            answer = await caller.receive(ApiVersionsRequest(), 0)
            assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert [each.api_key for each in answer.api_keys] == [18]

    run(test())


async def _fails_later(request, context):
    raise ZeroDivisionError("a mistake in a handler")


def _fails_now(request, context):
    raise ZeroDivisionError("a mistake in a handler")


def _answers_nonsense(request, context):
    from strom.wire.kafka.messages.k03_metadata import MetadataResponse

    return MetadataResponse(brokers=None, topics=12)  # type: ignore[arg-type]


async def _answers_nonsense_later(request, context):
    return _answers_nonsense(request, context)


def _fails_to_respond(request, context):
    result = asyncio.get_running_loop().create_future()
    result.set_result(0)
    return PendingResponse(result, lambda answered: _fails_now(answered, context))


def _fails_to_respond_later(request, context):
    result = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.01, result.set_result, 0)
    return PendingResponse(result, lambda answered: _fails_now(answered, context))


@pytest.mark.parametrize(
    "mistake",
    [
        _fails_now,
        _fails_later,
        _fails_to_respond,
        _fails_to_respond_later,
        _answers_nonsense,
        _answers_nonsense_later,
    ],
)
def test_a_mistake_in_a_handler_is_logged_and_costs_one_connection(mistake, monkeypatch, caplog):
    monkeypatch.setitem(HANDLERS, METADATA, dataclasses.replace(HANDLERS[METADATA], handle=mistake))

    async def test():
        async with running_node() as node:
            other = await node.caller()
            assert await is_refused(await node.caller(), frame_of(MetadataRequest(), 9))
            answer = await other.call(
                ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3
            )
            assert answer.error_code == ErrorCode.NONE

    with caplog.at_level(logging.ERROR):
        run(test())
    assert any(record.levelno == logging.ERROR for record in caplog.records)


def test_a_consumer_that_leaves_leaves_nothing_waiting():
    async def test():
        async with running_node() as node:
            caller = await node.caller()
            await caller.call(create_request("t"), 5)
            (partition,) = node.broker.topic("t").partitions
            wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
            request = FetchRequest(
                max_wait_ms=60_000,
                min_bytes=1,
                max_bytes=1000,
                session_epoch=-1,
                topics=[FetchTopic(topic="t", partitions=[wanted])],
            )
            consumers = [await node.caller() for _ in range(20)]
            for consumer in consumers:
                await consumer.send(request, 11)
            async with asyncio.timeout(10):
                while len(partition._waiting_for_records) < 20:
                    await asyncio.sleep(0.005)
                for consumer in consumers:
                    consumer.leave()
                while partition._waiting_for_records:
                    await asyncio.sleep(0.005)
            produced = await caller.call(produce_request(NOW, ("t", 0, b"1")), 9)
            assert produced.responses[0].partition_responses[0].error_code == ErrorCode.NONE

    run(test())


def test_a_producer_that_leaves_has_its_records_kept():
    async def test():
        async with running_node() as node:
            caller, other = await node.caller(), await node.caller()
            await other.call(create_request("t"), 5)
            await caller.send(produce_request(NOW, ("t", 0, b"1")), 9)
            caller.leave()
            (partition,) = node.broker.topic("t").partitions
            async with asyncio.timeout(10):
                while partition.log.high_watermark < 1:
                    await asyncio.sleep(0.005)

    run(test())


def test_acks_0_is_not_answered_and_an_error_closes_the_connection():
    async def test():
        async with running_node(auto_create_topics=False) as node:
            caller = await node.caller()
            await caller.call(create_request("t"), 5)
            await caller.send(produce_request(NOW, ("t", 0, b"1"), acks=0), 9)
            assert (await caller.call(MetadataRequest(topics=None), 9)).brokers
            await caller.send(produce_request(NOW, ("unknown", 0, b"1"), acks=0), 9)
            assert await caller.is_closed()

    run(test())
