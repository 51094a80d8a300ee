"""Publishing on a channel, without sockets: contents, confirms, returns, and their limits."""

import asyncio

import pytest

from strom.queues.definitions import ExchangeDefinition
from strom.queues.errors import QueueError, Reason
from strom.server.amqp.confirms import Confirms
from strom.server.amqp.transaction import Transaction
from strom.wire.amqp.content import (
    BasicProperties,
    ContentHeader,
    encode_header,
    encode_properties,
)
from strom.wire.amqp.methods import basic
from strom.wire.amqp.protocol import AmqpError, ReplyCode
from tests.server.amqp.in_process import clients

PERSISTENT = encode_properties(BasicProperties(delivery_mode=2))
TO_Q = basic.Publish(exchange="", routing_key="q")


def run(test):
    async def with_queue():
        async with clients() as it:
            await it.world.declare("q")
            await test(it, it.channel().publisher)

    asyncio.run(asyncio.wait_for(with_queue(), 10))


def header(size):
    return memoryview(encode_header(ContentHeader(size, PERSISTENT)))


def test_a_message_is_published_when_its_last_frame_has_arrived():
    async def test(it, publisher):
        assert not publisher.has_published
        publisher.assembly.begin(TO_Q)
        publisher.add_header(header(4))
        publisher.add_body(memoryview(b"ab"))
        assert it.world.queue("q").waiting == 0
        publisher.add_body(memoryview(b"cd"))
        assert (it.world.bodies("q"), publisher.has_published) == ([b"abcd"], True)

    run(test)


def test_a_message_may_have_no_body():
    async def test(it, publisher):
        publisher.assembly.begin(TO_Q)
        publisher.add_header(header(0))
        assert it.world.bodies("q") == [b""]

    run(test)


def test_a_message_reserves_its_size_until_it_is_complete_or_the_channel_is_closed():
    async def test(it, publisher):
        memory = it.services.memory
        for _ in range(2):
            publisher.assembly.begin(TO_Q)
            publisher.add_header(header(4))
            assert memory.in_use == 4
            publisher.add_body(memoryview(b"abc"))
            assert memory.in_use == 4
            publisher.add_body(memoryview(b"d"))
            assert memory.in_use == 0
        publisher.assembly.begin(TO_Q)
        publisher.add_header(header(4))
        publisher.close()
        assert (memory.in_use, publisher.assembly.is_idle) == (0, True)

    run(test)


def test_a_connection_that_holds_memory_does_not_wait_for_more():
    async def test(it, publisher):
        (connection,) = it.connections
        publisher.assembly.begin(TO_Q)
        publisher.add_header(header(it.services.memory.largest_request))
        second = it.channel(connection).publisher
        second.assembly.begin(TO_Q)
        with pytest.raises(AmqpError) as refused:
            second.add_header(header(4))
        assert refused.value.code is ReplyCode.RESOURCE_ERROR
        second.close()
        publisher.close()
        assert it.services.memory.in_use == 0

    run(test)


def test_a_message_larger_than_all_memory_gets_all_of_it():
    async def test(it, publisher):
        memory = it.services.memory
        publisher.assembly.begin(TO_Q)
        publisher.add_header(header(memory.largest_request + 1))
        assert memory.in_use == memory.largest_request
        publisher.add_body(memoryview(bytes(memory.largest_request + 1)))
        assert memory.in_use == 0

    run(test)


def test_a_message_that_waits_for_memory_is_forgotten_with_its_channel():
    async def test(it, publisher):
        size = it.services.memory.largest_request
        publisher.assembly.begin(TO_Q)
        publisher.add_header(header(size))
        second = it.channel().publisher
        second.assembly.begin(TO_Q)
        second.add_header(header(size))
        assert it.services.memory.is_wanted
        second.close()
        assert not it.services.memory.is_wanted
        publisher.close()
        assert it.services.memory.in_use == 0

    run(test)


def test_a_confirm_waits_for_the_disk():
    async def test(it, publisher):
        (connection,) = it.connections
        out = connection.out
        publisher.confirms = Confirms(out.flush_soon)
        publisher.publish(TO_Q, PERSISTENT, b"m")
        assert (publisher.has_confirms, out.unconfirmed) == (False, 1)
        await it.world.synced()
        assert (publisher.confirms.close(), out.unconfirmed) == (0, 0)

    run(test)


def test_an_unroutable_message_is_returned_if_it_is_mandatory():
    async def test(it, publisher):
        (connection,) = it.connections
        publisher.publish(basic.Publish(exchange="", routing_key="x"), PERSISTENT, b"m")
        assert connection.out.frames == []
        mandatory = basic.Publish(exchange="", routing_key="x", mandatory=True)
        publisher.publish(mandatory, PERSISTENT, b"m")
        assert b"NO_ROUTE" in b"".join(connection.out.frames)

    run(test)


def test_a_transaction_keeps_what_is_published():
    async def test(it, publisher):
        publisher.transaction = Transaction()
        publisher.publish(TO_Q, PERSISTENT, b"m")
        assert it.world.queue("q").waiting == 0
        ((message, mandatory),) = publisher.transaction.published
        assert (message.body, mandatory) == (b"m", False)

    run(test)


def test_messages_that_a_client_may_not_publish_are_refused():
    async def test(it, publisher):
        it.world.vhost.add_exchange(ExchangeDefinition("/", "inner", "fanout", internal=True))
        with pytest.raises(QueueError, match="cannot publish to internal exchange 'inner'"):
            publisher.publish(basic.Publish(exchange="inner"), PERSISTENT, b"m")
        with pytest.raises(QueueError) as refused:
            publisher.publish(basic.Publish(exchange="missing"), PERSISTENT, b"m")
        assert refused.value.reason is Reason.NOT_FOUND
        other = encode_properties(BasicProperties(user_id="other"))
        with pytest.raises(QueueError, match="user_id property set to 'other'"):
            publisher.publish(TO_Q, other, b"m")
        with pytest.raises(AmqpError, match="immediate=true"):
            publisher.publish(basic.Publish(routing_key="q", immediate=True), PERSISTENT, b"m")
        assert it.world.queue("q").waiting == 0

    run(test)


def test_the_own_user_id_is_accepted():
    async def test(it, publisher):
        publisher.publish(TO_Q, encode_properties(BasicProperties(user_id="guest")), b"m")
        assert it.world.bodies("q") == [b"m"]

    run(test)
