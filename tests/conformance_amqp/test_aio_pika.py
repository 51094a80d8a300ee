"""The same brokers through aio-pika."""

import asyncio

import aio_pika
import pytest


def fail(why):
    raise ValueError(why)


@pytest.fixture
def run(server):
    """Runs a coroutine function with a channel of a robust connection."""

    def run(work, **options):
        async def with_channel():
            connection = await aio_pika.connect_robust(server.url, timeout=20)
            async with connection:
                await asyncio.wait_for(work(await connection.channel(**options)), 60)

        asyncio.run(with_channel())

    return run


def test_publishing_many_at_once_with_confirms(run, name):
    queue_name = name()

    async def work(channel):
        queue = await channel.declare_queue(queue_name, durable=True)
        exchange = channel.default_exchange
        messages = [
            aio_pika.Message(str(number).encode(), delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            for number in range(300)
        ]
        await asyncio.gather(*(exchange.publish(one, routing_key=queue_name) for one in messages))
        seen = []
        async with queue.iterator() as iterator:
            async for message in iterator:
                async with message.process():
                    seen.append(int(message.body))
                if len(seen) == 300:
                    break
        assert sorted(seen) == list(range(300))
        await queue.delete(if_unused=False, if_empty=False)

    run(work)


def test_a_message_that_fails_is_requeued(run, name):
    queue_name = name()

    async def work(channel):
        queue = await channel.declare_queue(queue_name, exclusive=True)
        await channel.default_exchange.publish(aio_pika.Message(b"m"), routing_key=queue_name)
        message = await queue.get(timeout=10)
        with pytest.raises(ValueError, match="no number"):
            async with message.process(requeue=True):
                fail("no number")
        again = await queue.get(timeout=10)
        assert again.redelivered
        await again.ack()

    run(work)


def test_exchanges_and_patterns(run, name):
    exchange_name, queue_name = name("x"), name()

    async def work(channel):
        exchange = await channel.declare_exchange(
            exchange_name, aio_pika.ExchangeType.TOPIC, auto_delete=True
        )
        queue = await channel.declare_queue(queue_name, exclusive=True)
        await queue.bind(exchange, "logs.*")
        await exchange.publish(aio_pika.Message(b"1", headers={"n": 1}), "logs.info")
        await exchange.publish(aio_pika.Message(b"2"), "other", mandatory=False)
        message = await queue.get(timeout=10)
        assert (message.body, message.routing_key, message.headers) == (b"1", "logs.info", {"n": 1})
        assert await queue.get(fail=False) is None

    run(work)


def test_an_unroutable_message_raises(run, name):
    async def work(channel):
        with pytest.raises(aio_pika.exceptions.DeliveryError):
            await channel.default_exchange.publish(
                aio_pika.Message(b"m"), routing_key=name("nobody"), mandatory=True
            )

    run(work, on_return_raises=True)


def test_transactions(run, name):
    queue_name = name()

    async def work(channel):
        queue = await channel.declare_queue(queue_name, exclusive=True)
        transaction = channel.transaction()
        await transaction.select()
        await channel.default_exchange.publish(aio_pika.Message(b"1"), routing_key=queue_name)
        await transaction.rollback()
        await channel.default_exchange.publish(aio_pika.Message(b"2"), routing_key=queue_name)
        await transaction.commit()
        assert (await queue.get(timeout=10, no_ack=True)).body == b"2"
        assert await queue.get(fail=False, no_ack=True) is None

    run(work, publisher_confirms=False)


def test_a_closed_channel_says_why(run, name):
    async def work(channel):
        with pytest.raises(aio_pika.exceptions.ChannelNotFoundEntity):
            await channel.declare_queue(name(), passive=True)

    run(work)
