import asyncio

from strom.model.errors import ErrorCode
from strom.wire.kafka.messages.k64_unregister_broker import UnregisterBrokerRequest
from tests.server.kafka_calls import running_node


def test_the_only_broker_stays():
    async def test():
        async with running_node() as node:
            caller = await node.caller()
            answer = await caller.call(UnregisterBrokerRequest(broker_id=1), 0)
            assert answer.error_code == ErrorCode.INVALID_REQUEST
            assert "cannot be unregistered" in answer.error_message

    asyncio.run(asyncio.wait_for(test(), 30))
