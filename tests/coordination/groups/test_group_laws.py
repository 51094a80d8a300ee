"""Whatever clients do, and whenever it crashes: what must hold for every group."""

import itertools
from collections import defaultdict
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from strom.coordination.groups.classic.states import GroupState
from strom.coordination.groups.commands import (
    CommitOffsets,
    Heartbeat,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    LeavingMember,
    SyncGroup,
    SyncResponse,
)
from strom.coordination.groups.log_format import decode
from strom.coordination.groups.records import CommittedOffset, GroupMetadata
from strom.model.errors import ErrorCode
from strom.model.topics import TopicPartition
from tests.coordination.groups.world import GroupWorld

GROUP = "g"
PARTITION = TopicPartition("t", 0)
LONG_MS = 60 * 60 * 1000


@dataclass
class Client:
    """A program that wants to be a member: what it believes, right or wrong."""

    number: int
    instance: str | None
    member: str = ""
    generation: int = -1
    join: int | None = None
    sync: int | None = None
    leads: tuple[str, ...] = ()


class Groups(RuleBasedStateMachine):
    """Clients that join, sync, stay, leave and fall silent, in any order, on one group."""

    clients = Bundle("clients")

    @initialize(delay=st.sampled_from([0, 3000]), size=st.sampled_from([3, 1000]))
    def begin(self, delay: int, size: int) -> None:
        self.world = GroupWorld(group_initial_rebalance_delay_ms=delay, group_max_size=size)
        self.everyone: list[Client] = []
        self.owners: dict[int, dict[int, str]] = defaultdict(dict)
        self.fresh = itertools.count()
        self.newest = 0
        self.committed = -1

    @rule(target=clients, instance=st.sampled_from([None, None, "one", "two"]))
    def start_a_client(self, instance: str | None):
        self.everyone.append(Client(len(self.everyone), instance))
        return self.everyone[-1]

    @rule(
        client=clients,
        protocols=st.sampled_from([("a", "b"), ("b",), ("b", "a")]),
        needs_known_id=st.booleans(),
        rebalance_ms=st.sampled_from([5_000, 60_000]),
    )
    def join(self, client, protocols, needs_known_id, rebalance_ms) -> None:
        client.join = self.world.submit(
            JoinGroup(
                group=GROUP,
                member=client.member,
                fresh=str(next(self.fresh)),
                instance=client.instance,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=rebalance_ms,
                protocol_type="consumer",
                protocols=tuple((name, b"") for name in protocols),
                needs_known_id=needs_known_id,
            )
        )

    @rule(client=clients)
    def sync(self, client) -> None:
        shares = tuple((member, str(number).encode()) for number, member in enumerate(client.leads))
        client.sync = self.world.submit(
            SyncGroup(
                group=GROUP,
                generation=client.generation,
                member=client.member,
                instance=client.instance,
                assignments=shares,
            )
        )

    @rule(client=clients)
    def send_a_heartbeat(self, client) -> None:
        self.world.submit(
            Heartbeat(
                group=GROUP,
                generation=client.generation,
                member=client.member,
                instance=client.instance,
            )
        )

    @rule(client=clients, offset=st.integers(0, 100))
    def commit(self, client, offset) -> None:
        ticket = self.world.submit(
            CommitOffsets(
                group=GROUP,
                generation=client.generation,
                member=client.member,
                instance=client.instance,
                offsets=((PARTITION, CommittedOffset(offset=offset, committed_ms=0)),),
            )
        )
        if self.world.responses[ticket].code is ErrorCode.NONE:
            self.committed = offset

    @rule(client=clients)
    def leave(self, client) -> None:
        leavers = (LeavingMember(client.member, client.instance),)
        self.world.submit(LeaveGroup(group=GROUP, leavers=leavers))

    @rule(client=clients)
    def forget_who_it_was(self, client) -> None:
        client.member, client.generation, client.leads = "", -1, ()

    @rule(milliseconds=st.sampled_from([0, 1_000, 4_000, 12_000, 70_000]))
    def let_time_pass(self, milliseconds) -> None:
        self.world.wait(milliseconds)

    @rule()
    def crash_and_restart(self) -> None:
        self.learn()
        self.world.restart()
        # A generation that was never shared out may be used again: nobody owns anything in it.
        group = self.world.coordinator.find_classic(GROUP)
        self.newest = group.generation if group is not None else 0
        for client in self.everyone:
            client.join = client.sync = None

    @invariant()
    def learn(self) -> None:
        """Take the answers in, and see that no two members own the same."""
        if not hasattr(self, "world"):
            return
        for client in self.everyone:
            joined = self.world.responses.get(client.join or 0)
            if isinstance(joined, JoinResponse):
                client.join = None
                if joined.code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                    client.member, client.generation = joined.member, joined.generation
                    client.leads = tuple(one.id for one in joined.members)
            synced = self.world.responses.get(client.sync or 0)
            if isinstance(synced, SyncResponse):
                client.sync = None
                if synced.code is ErrorCode.NONE and synced.assignment:
                    self._owns(client, int(synced.assignment))

    def _owns(self, client: Client, partition: int) -> None:
        # A static member that comes back under a new id is still the same owner.
        owner = client.instance or client.member
        others = self.owners[client.generation]
        assert others.setdefault(partition, owner) == owner, (client, partition, others)

    @invariant()
    def generations_only_grow(self) -> None:
        group = self.world.coordinator.find_classic(GROUP) if hasattr(self, "world") else None
        if group is not None:
            assert group.generation >= self.newest
            self.newest = group.generation

    @invariant()
    def the_log_tells_the_same(self) -> None:
        if not hasattr(self, "world"):
            return
        rebuilt = self.world.rebuilt()
        assert dict(rebuilt.committed(GROUP)) == dict(self.world.coordinator.committed(GROUP))
        if self.committed >= 0:
            assert rebuilt.committed(GROUP)[PARTITION].offset == self.committed
        group, again = self.world.coordinator.find_classic(GROUP), rebuilt.find_classic(GROUP)
        if group is not None and group.state is GroupState.STABLE:
            assert again is not None
            assert again.state is GroupState.STABLE
            assert (again.generation, again.leader) == (group.generation, group.leader)
            shares = {member.id: member.assignment for member in group.members.values()}
            assert shares == {member.id: member.assignment for member in again.members.values()}

    @invariant()
    def written_generations_never_go_back(self) -> None:
        if not hasattr(self, "world"):
            return
        written = [
            record.generation
            for key, value in self.world.log
            if isinstance(record := decode(key, value), GroupMetadata)
        ]
        assert written == sorted(written)

    def teardown(self) -> None:
        """Left alone, every request is answered, and everyone is taken for gone."""
        if hasattr(self, "world"):
            self.world.wait(LONG_MS)
            assert not self.world.unanswered
            group = self.world.coordinator.find_classic(GROUP)
            assert group is None or (group.state is GroupState.EMPTY and not group.members)


TestGroups = Groups.TestCase
TestGroups.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
