"""aiokafka: the asyncio client."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import MessageSizeTooLargeError

from tests.conftest import Target

TIMEOUT_S = 20
Result = TypeVar("Result")


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run to the end, or fail when it takes too long."""
    return asyncio.run(asyncio.wait_for(work, 2 * TIMEOUT_S))


@asynccontextmanager
async def started(client: Any) -> AsyncIterator[Any]:
    """A client between its start and its stop."""
    await client.start()
    try:
        yield client
    finally:
        await (client.close() if isinstance(client, AIOKafkaAdminClient) else client.stop())


async def create(target: Target, topic: str, **settings: str) -> None:
    """A topic with one partition."""
    configs = {name.replace("_", "."): value for name, value in settings.items()}
    admin = AIOKafkaAdminClient(bootstrap_servers=target.bootstrap_servers)
    async with started(admin):
        await admin.create_topics([NewTopic(topic, 1, 1, topic_configs=configs)])


async def read(target: Target, topic: str, count: int) -> list[Any]:
    """The first messages of partition 0."""
    consumer = AIOKafkaConsumer(bootstrap_servers=target.bootstrap_servers)
    async with started(consumer):
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        return [await asyncio.wait_for(consumer.getone(), TIMEOUT_S) for _ in range(count)]


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
def test_messages_come_back_in_order(
    target: Target, topic: str, codec: str | None, idempotent: bool
) -> None:
    async def work() -> list[Any]:
        await create(target, topic)
        producer = AIOKafkaProducer(
            bootstrap_servers=target.bootstrap_servers,
            compression_type=codec,
            enable_idempotence=idempotent,
        )
        async with started(producer):
            for number in range(300):
                await producer.send(topic, b"value %d" % number, key=b"%d" % number)
            await producer.flush()
        return await read(target, topic, 300)

    messages = run(work())
    assert [message.offset for message in messages] == list(range(300))
    assert [message.value for message in messages] == [b"value %d" % n for n in range(300)]


def test_a_waiting_consumer_gets_what_is_produced(target: Target, topic: str) -> None:
    async def work() -> Any:
        await create(target, topic)
        waiting = asyncio.create_task(read(target, topic, 1))
        async with started(AIOKafkaProducer(bootstrap_servers=target.bootstrap_servers)) as one:
            await one.send_and_wait(topic, b"fresh", headers=[("a", b"b")])
        return (await waiting)[0]

    message = run(work())
    assert (message.value, message.headers) == (b"fresh", (("a", b"b"),))


def test_a_message_too_large_is_refused(target: Target, topic: str) -> None:
    async def work() -> None:
        await create(target, topic, max_message_bytes="1000")
        async with started(AIOKafkaProducer(bootstrap_servers=target.bootstrap_servers)) as one:
            await one.send_and_wait(topic, b"x" * 5000)

    with pytest.raises(MessageSizeTooLargeError):
        run(work())


def test_producing_creates_the_topic(target: Target, topic: str) -> None:
    async def work() -> Any:
        async with started(AIOKafkaProducer(bootstrap_servers=target.bootstrap_servers)) as one:
            return await one.send_and_wait(topic, b"first")

    assert run(work()).offset == 0
