import asyncio

import pytest

from strom.model.errors import ErrorCode
from strom.wire.kafka.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from tests.server.kafka_calls import running_node


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize(
    "asked", [MetadataRequestTopic(name=None), MetadataRequestTopic(name="t", topic_id=b"1" * 16)]
)
def test_versions_that_cannot_ask_by_id_refuse_to(version, asked):
    async def test():
        async with running_node() as node:
            caller = await node.caller()
            answer = await caller.call(MetadataRequest(topics=[asked]), version)
            assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_REQUEST]
            assert [topic.name for topic in answer.topics] == [asked.name or ""]
            assert node.broker.topics() == []

    asyncio.run(asyncio.wait_for(test(), 30))
