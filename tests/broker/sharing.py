"""A broker that serves share groups, without sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from strom.broker.groups import Groups
from strom.broker.partition import Partition
from strom.broker.share_groups import ShareGroups
from strom.broker.shared_partition import AcquiredBatches, SharedPartition
from strom.coordination.groups.share.partitions.acquisition import Acquired, AcquireLimits
from strom.coordination.groups.share.partitions.share_partition import Acknowledgement
from strom.coordination.groups.share.protocol import ShareHeartbeat
from strom.model.errors import ErrorCode
from strom.storage.region import Region
from strom.testing import ManualClock, MemoryFiles
from strom.wire.kafka.batch import headers
from strom.wire.kafka.records import read_records
from tests.broker.opened import Opened, opened

GROUP, MEMBER, OTHER = "g", "ann", "bob"
FEW_PARTITIONS = {
    "offsets_topic_num_partitions": "1",
    "share_coordinator_state_topic_num_partitions": "2",
    "group_share_min_record_lock_duration_ms": "1000",
}


class Sharing:
    """A broker with a topic `t` that the group `g` reads, from its start on."""

    def __init__(self, world: Opened, groups: Groups, shares: ShareGroups) -> None:
        self.world = world
        self.groups = groups
        self.shares = shares

    @property
    def source(self) -> Partition:
        """The partition that is read."""
        return self.world.broker.topic("t").partitions[0]

    @property
    def shared(self) -> SharedPartition:
        """The same as the group reads it."""
        topic_id = self.world.broker.topic("t").topic.id.bytes
        return self.shares.partition(GROUP, topic_id, 0)

    async def join(self, member: str = MEMBER) -> None:
        """Become a member."""
        await self.shares.state_log.ensure_topic()
        answer = await self.groups.submit(
            ShareHeartbeat(group=GROUP, member=member, epoch=0, topics=("t",))
        )
        assert answer.code is ErrorCode.NONE, answer

    async def set_configs(self, **configs: str) -> None:
        """Change settings of the group; names with underscores for dots."""
        texts = {name.replace("_", "."): value for name, value in configs.items()}
        own = dict(self.world.broker.metadata.group_configs(GROUP))
        await self.world.broker.set_group_configs(GROUP, own | texts)

    def take(
        self, member: str = MEMBER, most: int = 500, max_bytes: int = 1 << 20
    ) -> AcquiredBatches:
        """Acquire what there is."""
        return self.shared.acquire(member, AcquireLimits(most, most), max_bytes, at_least_one=True)

    def acquired(self, member: str = MEMBER, most: int = 500) -> list[Acquired]:
        """The same, without the bytes."""
        return self.take(member, most).acquired

    async def acknowledge(
        self, first: int, last: int, *types: int, member: str = MEMBER
    ) -> ErrorCode:
        """Say what became of records, and wait until it is written down."""
        said: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self.shared.acknowledge(member, [Acknowledgement(first, last, types)], said.set_result)
        return await asyncio.wait_for(said, 10)


def values_of(handout: AcquiredBatches) -> list[bytes | None]:
    """The values of all records in a handout."""
    data = handout.records
    if isinstance(data, Region):
        data = data.take(len(data))
    return [
        record.value
        for position, header in headers(data)
        for record in read_records(data, position, header)
    ]


@asynccontextmanager
async def sharing(
    files: MemoryFiles | None = None, clock: ManualClock | None = None, **settings: str
) -> AsyncIterator[Sharing]:
    """A broker that serves share groups; the topic and the group are made if need be."""
    async with opened(files, clock, **(FEW_PARTITIONS | settings)) as world:
        groups = Groups(world.broker)
        groups.load()
        await groups.topic.ensure()
        shares = ShareGroups(world.broker, groups)
        shares.load()
        it = Sharing(world, groups, shares)
        if world.broker.find_topic("t") is None:
            await world.broker.create_topic("t", 1, {})
            await it.set_configs(share_auto_offset_reset="earliest")
            await it.join()
        try:
            yield it
        finally:
            groups.stop()
            shares.stop()
