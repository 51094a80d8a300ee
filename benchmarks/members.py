"""Members of one group, all in one process and each with a connection: how long a rebalance takes.

They do what the protocol asks for and nothing else. While they wait for a rebalance, they send a
heartbeat every two milliseconds: so what is measured is the work of the group, and not how long it
takes until a client happens to ask.
"""

import asyncio
import statistics
import struct
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

from benchmarks.raw_client import frame
from strom.model.errors import ErrorCode
from strom.server.event_loop import loop_factory
from strom.wire.kafka.codec import decode
from strom.wire.kafka.messages.k10_find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from strom.wire.kafka.messages.k11_join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from strom.wire.kafka.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from strom.wire.kafka.messages.k13_leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from strom.wire.kafka.messages.k14_sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from strom.wire.kafka.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from strom.wire.kafka.schema import Request, Response

R = TypeVar("R", bound=Response)

SESSION_MS = 30_000
REBALANCE_MS = 60_000
PAUSE_SECONDS = 0.002
REST_SECONDS = 0.01
PATIENCE_SECONDS = 60
_CORRELATION_BYTES = 5
"""Correlation id, no tags."""
_TRANSIENT = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)
"""A moment later the same request will do."""
_LEAVE = -1
_JOIN = 0


class Line:
    """One connection with one request in flight at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def call(self, request: Request, version: int, answer: type[R]) -> R:
        """Send a request, and wait for its answer."""
        self._writer.write(frame(request, version))
        (length,) = struct.unpack(">i", await self._reader.readexactly(4))
        return decode(
            answer, version, memoryview(await self._reader.readexactly(length)), _CORRELATION_BYTES
        )

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        await self._writer.wait_closed()


async def connect(bootstrap_servers: str) -> Line:
    """A connection to a broker."""
    host, _, port = bootstrap_servers.partition(":")
    return Line(*await asyncio.open_connection(host, int(port)))


async def find_coordinator(line: Line, key: str, key_type: int = 0) -> None:
    """Return when the group has a coordinator; Kafka first has to create its internal topic."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    while True:
        answer = await line.call(request, 6, FindCoordinatorResponse)
        if answer.coordinators[0].error_code == ErrorCode.NONE:
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"no coordinator: code {answer.coordinators[0].error_code}")
        await asyncio.sleep(0.1)


class Member(Protocol):
    """A member of either kind."""

    async def join(self) -> None:
        """Enter the group, and take part until there is something to hold."""

    async def heartbeat(self) -> bool:
        """Send a heartbeat, and do what the answer asks for; whether that has changed anything."""

    async def leave(self) -> None:
        """Leave the group."""

    @property
    def epoch(self) -> int:
        """The generation or epoch that the member has reached."""

    @property
    def holds(self) -> int:
        """How many partitions the member holds."""


@dataclass
class ClassicMember:
    """A member of a classic group; the leader gives each member one partition."""

    line: Line
    group: str
    topic: str
    topic_id: bytes
    id: str = ""
    epoch: int = -1
    holds: int = 0

    async def join(self) -> None:
        """Join and sync, again and again if others come in between."""
        while True:
            joined = await self._ask_to_join()
            if joined.error_code == ErrorCode.NONE and await self._sync(joined):
                return

    async def heartbeat(self) -> bool:
        """A member joins again when a rebalance begins."""
        request = HeartbeatRequest(group_id=self.group, generation_id=self.epoch, member_id=self.id)
        answer = await self.line.call(request, 4, HeartbeatResponse)
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            await self.join()
            return True
        if answer.error_code and answer.error_code not in _TRANSIENT:
            raise RuntimeError(f"a heartbeat failed with code {answer.error_code}")
        return False

    async def leave(self) -> None:
        """Leave the group."""
        members = [MemberIdentity(member_id=self.id)]
        request = LeaveGroupRequest(group_id=self.group, members=members)
        await self.line.call(request, 5, LeaveGroupResponse)
        self.id, self.epoch, self.holds = "", -1, 0

    async def _ask_to_join(self) -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=self._subscription())],
        )
        answer = await self.line.call(request, 9, JoinGroupResponse)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.id = answer.member_id
        elif answer.error_code == ErrorCode.NONE:
            self.epoch = answer.generation_id
        elif answer.error_code not in _TRANSIENT:
            raise RuntimeError(f"a join failed with code {answer.error_code}")
        return answer

    async def _sync(self, joined: JoinGroupResponse) -> bool:
        assignments = [
            SyncGroupRequestAssignment(member_id=one.member_id, assignment=self._share(at))
            for at, one in enumerate(joined.members)  # only the leader gets any
        ]
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.epoch,
            member_id=self.id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        answer = await self.line.call(request, 5, SyncGroupResponse)
        self.holds = 1 if answer.assignment else 0
        return bool(answer.error_code == ErrorCode.NONE)

    def _subscription(self) -> bytes:
        name = self.topic.encode()
        return struct.pack(f">hih{len(name)}si", 0, 1, len(name), name, -1)

    def _share(self, partition: int) -> bytes:
        name = self.topic.encode()
        return struct.pack(f">hih{len(name)}siii", 0, 1, len(name), name, 1, partition, -1)


@dataclass
class NewMember:
    """A member by the protocol of KIP-848: the broker shares, the member holds and lets go."""

    line: Line
    group: str
    topic: str
    topic_id: bytes
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    epoch: int = _JOIN
    _held: list[int] = field(default_factory=list)

    @property
    def holds(self) -> int:
        """How many partitions the member holds."""
        return len(self._held)

    async def join(self) -> None:
        """The first heartbeat."""
        await self._beat(epoch=_JOIN)

    async def heartbeat(self) -> bool:
        """Report the member's partitions, and get its assignment."""
        before = self.epoch, self._held
        await self._beat(epoch=self.epoch)
        return before != (self.epoch, self._held)

    async def leave(self) -> None:
        """The last heartbeat."""
        await self._beat(epoch=_LEAVE)
        self.epoch, self._held = _JOIN, []

    async def _beat(self, epoch: int) -> None:
        held = [TopicPartitions(topic_id=self.topic_id, partitions=self._held)]
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.id,
            member_epoch=epoch,
            rebalance_timeout_ms=REBALANCE_MS if epoch == _JOIN else -1,
            subscribed_topic_names=[self.topic] if epoch == _JOIN else None,
            topic_partitions=held if self._held else [],
        )
        answer = await self.line.call(request, 1, ConsumerGroupHeartbeatResponse)
        if answer.error_code and answer.error_code not in _TRANSIENT:
            raise RuntimeError(f"a heartbeat failed: {answer.error_code}, {answer.error_message}")
        if not answer.error_code:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                shares = answer.assignment.topic_partitions
                self._held = [one for share in shares for one in share.partitions]


class RebalanceTimes(NamedTuple):
    """How long it took until every member was stable again, in milliseconds."""

    join_ms: float
    leave_ms: float | None
    """None if no member was left to rebalance."""


@dataclass(frozen=True)
class Rebalances:
    """One member joins and leaves a group, several times; the medians are the result."""

    bootstrap_servers: str
    group: str
    topic: str
    topic_id: bytes
    members: int
    """How many they are after the join. The topic must have as many partitions."""
    repetitions: int
    new_protocol: bool = False

    def __call__(self) -> RebalanceTimes:
        """Run in a client process."""
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(self._measure())

    async def _measure(self) -> RebalanceTimes:
        kind = NewMember if self.new_protocol else ClassicMember
        lines = [await connect(self.bootstrap_servers) for _ in range(self.members)]
        await find_coordinator(lines[0], self.group)
        members: list[Member] = [kind(one, self.group, self.topic, self.topic_id) for one in lines]
        *others, newcomer = members
        joins, leaves = [], []
        if others:
            await self._settle(others, joining=others)
        for _ in range(self.repetitions):
            joins.append(await self._settle(members, joining=[newcomer]))
            leaves.append(await self._settle(others, leaving=newcomer))
        for member in others:
            await member.leave()
        for line in lines:
            await line.close()
        left = statistics.median(leaves) if others else None
        return RebalanceTimes(statistics.median(joins), left)

    async def _settle(
        self,
        members: Sequence[Member],
        joining: Sequence[Member] = (),
        leaving: Member | None = None,
    ) -> float:
        """Let members join or one leave, and give the milliseconds until all are stable again."""
        # In a classic group the leader assigns one partition to each member, and the others to none.
        wanted = self.members if self.new_protocol else len(members)
        change = _Change(members, wanted, after=max((one.epoch for one in members), default=0))
        async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as tasks:
            for member in members:
                tasks.create_task(change.see_through(member, joins=member in joining))
            if leaving is not None:
                tasks.create_task(leaving.leave())
        return change.milliseconds


class _Change:
    """From the moment that a member joins or leaves until all members are stable in a later epoch."""

    def __init__(self, members: Sequence[Member], wanted: int, after: int) -> None:
        self.milliseconds = 0.0
        self._members = members
        self._wanted = wanted
        self._after = after
        self._settled = not members
        self._began = time.perf_counter()

    async def see_through(self, member: Member, joins: bool) -> None:
        """What one member does until the end."""
        if joins:
            await member.join()
            self._look()
        while True:
            # Who has arrived has little to ask for, and leaves the broker to the others.
            await asyncio.sleep(REST_SECONDS if member.epoch > self._after else PAUSE_SECONDS)
            if self._settled:
                return
            if await member.heartbeat():
                self._look()

    def _look(self) -> None:
        epochs = {one.epoch for one in self._members}
        everything = sum(one.holds for one in self._members) == self._wanted
        if not self._settled and everything and len(epochs) == 1 and max(epochs) > self._after:
            self._settled = True
            self.milliseconds = (time.perf_counter() - self._began) * 1000
