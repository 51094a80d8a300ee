"""The topics in which a broker keeps groups and transactions, under the promise that is measured."""

import asyncio
from typing import NamedTuple

from benchmarks.members import connect, find_coordinator
from benchmarks.peers import Peer, Variant


class InternalTopic(NamedTuple):
    """One of them, and the kind of keys that its coordinators are asked for by."""

    name: str
    key_type: int


OFFSETS = InternalTopic("__consumer_offsets", 0)
TRANSACTION_STATE = InternalTopic("__transaction_state", 1)
SHARE_STATE = InternalTopic("__share_group_state", 2)


def create_coordinator(peer: Peer, topic: InternalTopic) -> None:
    """Make the broker create the topic, by asking for a coordinator."""
    asyncio.run(_ask(peer.bootstrap_servers, topic))


def keep_promise(peer: Peer, topic: InternalTopic, variant: Variant) -> None:
    """Let what is written to the topic wait for the disk, or not, as the variant says."""
    peer.set_topic(topic.name, variant.topic_settings)


async def _ask(bootstrap_servers: str, topic: InternalTopic) -> None:
    line = await connect(bootstrap_servers)
    await find_coordinator(line, "anything", topic.key_type)
    await line.close()
