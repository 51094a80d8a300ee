"""A broker without sockets, on a disk in memory that syncs when the schedule says so.

Everything above the disk is the real thing, from the handlers down; so a schedule decides alone in which
order requests arrive, partitions reach the disk, and when the lights go out.
"""

import asyncio
import inspect
import random
from collections.abc import Callable
from typing import Any

from strom.broker.broker import Broker
from strom.broker.fetch_sessions import FetchSessions
from strom.broker.group_commit import Flushable
from strom.broker.groups import Groups
from strom.broker.partition import Partition
from strom.broker.share_groups import ShareGroups
from strom.broker.transactions import Transactions
from strom.model.broker_settings import BrokerSettings
from strom.model.topics import METADATA_TOPIC, TopicPartition
from strom.server.kafka import handlers
from strom.server.kafka.api import HANDLERS, Context, Endpoint, PendingResponse, Services
from strom.server.memory import MemoryPool
from strom.storage.log import Log
from strom.testing import ManualClock, MemoryFiles
from strom.wire.kafka.batch import headers
from strom.wire.kafka.records import ControlType, read_marker, read_records
from strom.wire.kafka.schema import Request

OUTPUT = "out"
INPUT = "in"
OUTPUT_PARTITIONS = 2
TIMEOUT_MS = 10_000
SETTINGS = {
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
}

handlers.load()


class ManualCommit:
    """Stands in for the group commit: what is dirty is synced when the schedule says so."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_failure: Callable[[Exception], None],
        most_at_once: int,
    ) -> None:
        self.dirty: dict[Flushable, None] = {}
        self.is_dead = False
        """Set by a crash: what was to be synced soon never is."""
        self._loop = loop

    def mark_dirty(self, partition: Flushable) -> None:
        """Remember it; what the cluster knows of itself is synced at once."""
        self.dirty[partition] = None
        assert isinstance(partition, Partition)
        if partition.log.partition.topic == METADATA_TOPIC:
            self._loop.call_soon(self.sync, partition)

    def sync(self, partition: Flushable) -> None:
        """Bring one partition to the disk."""
        self.dirty.pop(partition, None)
        if self.is_dead:
            return
        work = partition.begin_flush()
        if work is not None:
            work.sync()
            partition.finish_flush(work)

    def sync_all(self) -> None:
        """Bring everything to the disk."""
        for partition in list(self.dirty):
            self.sync(partition)

    async def finish_round(self) -> None:
        """There are no rounds."""

    async def stop(self) -> None:
        """The same as a sync of everything."""
        self.sync_all()


class World:
    """The broker, its disk and its clock, over all its lives."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.files = MemoryFiles(chance.randrange(2**32))
        self.clock = ManualClock()
        self.broker: Broker
        self.groups: Groups
        self.transactions: Transactions
        self._services: Services
        self._running: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Open the broker as it is on disk."""
        settings = BrokerSettings(data="data").override(SETTINGS)
        self.broker = await Broker.open(settings, self.files, self.clock, _fail)
        self.groups = Groups(self.broker)
        self.groups.load()
        self.transactions = Transactions(self.broker, self.groups)
        self.transactions.load()
        self._services = Services(
            broker=self.broker,
            groups=self.groups,
            shares=ShareGroups(self.broker, self.groups),
            transactions=self.transactions,
            endpoint=Endpoint(1, "here", 1),
            fetch_sessions=FetchSessions(0),
            memory=MemoryPool(1 << 20),
            loop=asyncio.get_running_loop(),
        )

    async def create_topics(self) -> None:
        """All topics that a schedule uses."""
        await self.groups.topic.ensure()
        await self.transactions.topic.ensure()
        await self.broker.create_topic(INPUT, 1, {})
        await self.broker.create_topic(OUTPUT, OUTPUT_PARTITIONS, {})

    async def crash(self, *, lose_power: bool) -> None:
        """End the process, perhaps with all that was not synced; and start again."""
        self.commit.is_dead = True
        for task in self._running:
            task.cancel()
        await asyncio.sleep(0)
        self._running.clear()
        if lose_power:
            self.files.crash()
        else:
            self.files.kill()
        await self.start()

    @property
    def commit(self) -> ManualCommit:
        """The disk's side."""
        commit: Any = self.broker.commit
        assert isinstance(commit, ManualCommit)
        return commit

    def deliver(self, request: Request, version: int) -> "asyncio.Task[Any]":
        """Hand a request to its handler, as if it had come over a connection."""
        context = Context(self._services, version, "simulated", "127.0.0.1:1")
        outcome = HANDLERS[request.SCHEMA.api_key].handle(request, context)
        task = asyncio.ensure_future(_finished(outcome))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def sync_something(self) -> None:
        """Bring one dirty partition to the disk."""
        dirty = list(self.commit.dirty)
        if dirty:
            self.commit.sync(self.chance.choice(dirty))

    async def settle(self) -> None:
        """Let everything come to its end: nothing waits for the disk any more."""
        for _ in range(20):
            self.commit.sync_all()
            await asyncio.sleep(0)
        assert not self.commit.dirty

    def logs(self) -> list[Log]:
        """The logs of all topics."""
        return [log for log in self.broker.all_logs() if log.partition.topic != METADATA_TOPIC]

    def committed_values(self) -> list[str]:
        """All records that a reader of committed ones sees in the output."""
        return [
            value
            for partition in self.broker.topic(OUTPUT).partitions
            for value in _committed(partition.log)
        ]

    def committed_offset(self, group: str) -> int | None:
        """How far a group has read the input."""
        found = self.groups.look().committed(group).get(TopicPartition(INPUT, 0))
        return None if found is None else found.offset


async def _finished(outcome: Any) -> Any:
    if isinstance(outcome, PendingResponse):
        return outcome.convert(await outcome.result)
    return await outcome if inspect.isawaitable(outcome) else outcome


def _fail(error: Exception) -> None:
    raise AssertionError("the disk failed") from error


def _committed(log: Log) -> list[str]:
    """As a consumer does it: skip what the answer names as aborted, up to the marker that says so."""
    values: list[str] = []
    position = log.start_offset
    while position < log.last_stable_offset:
        data, aborted = log.reader.read(position, 1 << 20, committed_only=True)
        coming = sorted(aborted, key=lambda one: one.first_offset)
        dropped: set[int] = set()
        for at, header in headers(data):
            while coming and coming[0].first_offset <= header.last_offset:
                dropped.add(coming.pop(0).producer_id)
            if header.is_control:
                marker = read_marker(data, at, header)
                if marker is not None and marker.type is ControlType.ABORT:
                    dropped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in dropped):
                values += [(one.value or b"").decode() for one in read_records(data, at, header)]
            position = header.next_offset
    return values
