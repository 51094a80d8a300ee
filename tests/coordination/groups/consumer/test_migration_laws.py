"""Members of both protocols come and go: whatever the group is just then, a partition has one owner."""

import itertools
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from strom.coordination.groups.commands import (
    Heartbeat,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    LeavingMember,
    StatusResponse,
    SyncGroup,
    SyncResponse,
)
from strom.coordination.groups.consumer.classic_members import as_classic, ids_of
from strom.coordination.groups.consumer.commands import ConsumerHeartbeat, ConsumerHeartbeatResponse
from strom.coordination.groups.consumer.group import ConsumerGroup
from strom.coordination.groups.consumer.records import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    NOTHING,
    Partitions,
    TopicIdPartition,
)
from strom.coordination.groups.group import ASSIGN_AT_ONCE
from strom.model.errors import ErrorCode
from strom.model.group_settings import GroupSettings
from strom.wire.kafka.codec import encode
from strom.wire.kafka.consumer_protocol import (
    ClassicSubscription,
    read_assignment,
    write_assignment,
)
from tests.coordination.groups.world import GroupWorld

GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 15_000
COOPERATIVE = 1
AGAIN = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)


@dataclass(eq=False)
class Client:
    """A consumer of either protocol; a classic one gives up everything before it joins again."""

    is_classic: bool
    id: str = ""
    epoch: int = JOIN_EPOCH
    owns: Partitions = NOTHING
    shall: Partitions = NOTHING
    join: int | None = None
    sync: int | None = None
    leads: tuple[str, ...] = ()
    must_join: bool = True
    must_sync: bool = False
    heard_ms: int = 0


class Migrations(RuleBasedStateMachine):
    """Clients of both protocols on one group."""

    clients = Bundle("clients")

    @initialize(assign_at_once=st.sampled_from([0, ASSIGN_AT_ONCE]))
    def begin(self, assign_at_once: int) -> None:
        self.world = GroupWorld(
            assign_at_once=assign_at_once,
            group_initial_rebalance_delay_ms=0,
            group_defaults=GroupSettings(
                consumer_assignment_interval_ms=0, consumer_session_timeout_ms=SESSION_MS
            ),
        )
        self.world.change_topics(a=3, b=1)
        self.everyone: list[Client] = []
        self.numbers = itertools.count()

    @rule(target=clients, is_classic=st.booleans())
    def start_a_client(self, is_classic: bool):
        client = Client(is_classic, "" if is_classic else f"m{next(self.numbers)}")
        self.everyone.append(client)
        self.act(client)
        return client

    @rule(client=clients)
    def go_on(self, client: Client) -> None:
        self.act(client)

    @rule()
    def everyone_goes_on(self) -> None:
        for client in self.everyone:
            self.act(client)
            self.each_partition_has_one_owner()

    @rule(client=clients)
    def leave(self, client: Client) -> None:
        client.owns = NOTHING
        if client.is_classic:
            self.world.submit(LeaveGroup(group=GROUP, leavers=(LeavingMember(client.id),)))
        else:
            self.world.submit(self.heartbeat_of(client, epoch=LEAVE_EPOCH))
        self.learn()
        self.reset(client)

    @rule(steps=st.integers(1, 20))
    def assign_in_the_background(self, steps: int) -> None:
        self.world.assign(steps)

    @rule(milliseconds=st.sampled_from([0, 1_000, 9_000, 16_000]))
    def let_time_pass(self, milliseconds: int) -> None:
        self.wait(milliseconds)

    def wait(self, milliseconds: int) -> None:
        for client in self.everyone:
            if self.world.now_ms + milliseconds - client.heard_ms >= SESSION_MS:
                # It has noticed by itself that it is cut off, and will join again.
                client.owns = client.shall = NOTHING
                client.epoch = client.epoch if client.is_classic else JOIN_EPOCH
                client.must_join = client.is_classic and client.join is None
                client.sync = None
        self.world.wait(milliseconds)
        self.learn()

    @rule()
    def crash_and_restart(self) -> None:
        self.learn()
        self.world.restart()
        for client in self.everyone:
            if client.join is not None or client.sync is not None:
                client.join = client.sync = None
                client.must_join = True

    @rule()
    def settle_down(self) -> None:
        """With everyone going on, everything gets an owner."""
        for _ in range(12 + 3 * len(self.everyone)):
            self.wait(2_000)
            self.world.assign()
            for client in self.everyone:
                self.act(client)
                self.each_partition_has_one_owner()
        if self.everyone:
            owned = sorted(one for client in self.everyone for one in client.owns)
            assert owned == sorted(self.everything())

    # --- what clients do -----------------------------------------------------------------------

    def act(self, client: Client) -> None:
        """Do what comes next for a client."""
        if client.join is not None or client.sync is not None:
            return  # it waits for an answer
        if not client.is_classic:
            self.beat(client)
        elif client.must_join:
            self.ask_to_join(client)
        elif client.must_sync:
            self.ask_for_its_share(client)
        else:
            beat = Heartbeat(group=GROUP, generation=client.epoch, member=client.id)
            response = self.world.responses[self.world.submit(beat)]
            assert isinstance(response, StatusResponse)
            self.refused(client, response.code)
        client.heard_ms = self.world.now_ms
        self.learn()

    def refused(self, client: Client, code: ErrorCode) -> None:
        if code is not ErrorCode.NONE:
            client.owns, client.must_join = NOTHING, True
            if code not in AGAIN:
                client.id = ""

    def ask_to_join(self, client: Client) -> None:
        client.owns, client.must_join, client.must_sync = NOTHING, False, False
        wants = ClassicSubscription(topics=["a", "b"])
        metadata = COOPERATIVE.to_bytes(2, "big") + encode(wants, COOPERATIVE)
        client.join = self.world.submit(
            JoinGroup(
                group=GROUP,
                member=client.id,
                fresh=f"m{next(self.numbers)}",
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                protocol_type="consumer",
                protocols=(("range", metadata),),
                needs_known_id=False,
            )
        )

    def ask_for_its_share(self, client: Client) -> None:
        client.must_sync = False
        shares: dict[str, set[TopicIdPartition]] = {member: set() for member in client.leads}
        for one, member in zip(self.everything(), itertools.cycle(client.leads), strict=False):
            shares[member].add(one)
        client.sync = self.world.submit(
            SyncGroup(
                group=GROUP,
                generation=client.epoch,
                member=client.id,
                assignments=tuple(
                    (member, write_assignment(as_classic(share, self.world.topics), COOPERATIVE))
                    for member, share in shares.items()
                ),
            )
        )

    def everything(self) -> list[TopicIdPartition]:
        return [
            TopicIdPartition(topic.id, index)
            for topic in self.world.topics
            for index in range(topic.partitions)
        ]

    def beat(self, client: Client) -> None:
        client.owns &= client.shall
        response = self.world.responses[self.world.submit(self.heartbeat_of(client))]
        assert isinstance(response, ConsumerHeartbeatResponse)
        if response.code is not ErrorCode.NONE:
            assert client.epoch != JOIN_EPOCH, response
            self.reset(client)
            return
        client.epoch = response.epoch
        if response.assignment is not None:
            client.shall = response.assignment
        client.owns |= client.shall

    def heartbeat_of(self, client: Client, epoch: int | None = None) -> ConsumerHeartbeat:
        return ConsumerHeartbeat(
            group=GROUP,
            member=client.id,
            epoch=client.epoch if epoch is None else epoch,
            fresh="never",
            rebalance_timeout_ms=REBALANCE_MS,
            topics=frozenset({"a", "b"}),
            owned=NOTHING if client.epoch == JOIN_EPOCH else client.owns,
        )

    def reset(self, client: Client) -> None:
        client.epoch, client.owns, client.shall = JOIN_EPOCH, NOTHING, NOTHING
        client.must_join = client.is_classic
        client.join = client.sync = None
        client.id = "" if client.is_classic else f"m{next(self.numbers)}"

    def learn(self) -> None:
        """Take in the answers that have come meanwhile."""
        for client in self.everyone:
            joined = self.world.responses.get(client.join or 0)
            if isinstance(joined, JoinResponse):
                client.join = None
                self.refused(client, joined.code)
                if joined.code is ErrorCode.NONE:
                    client.id, client.epoch = joined.member, joined.generation
                    client.leads = tuple(one.id for one in joined.members)
                    client.must_sync, client.heard_ms = True, self.world.now_ms
            synced = self.world.responses.get(client.sync or 0)
            if isinstance(synced, SyncResponse):
                client.sync = None
                self.refused(client, synced.code)
                if synced.code is ErrorCode.NONE:
                    share = read_assignment(synced.assignment).partitions
                    client.owns = ids_of(share, self.world.topics)
                    client.heard_ms = self.world.now_ms

    # --- what must hold ------------------------------------------------------------------------

    @invariant()
    def each_partition_has_one_owner(self) -> None:
        if not hasattr(self, "world"):
            return
        owners: dict[TopicIdPartition, Client] = {}
        for client in self.everyone:
            for one in client.owns:
                assert owners.setdefault(one, client) is client, (one, client, owners[one])

    @invariant()
    def the_log_tells_all(self) -> None:
        if not hasattr(self, "world"):
            return
        found = self.world.coordinator.find(GROUP)
        if isinstance(found, ConsumerGroup):
            rebuilt = self.world.rebuilt().find(GROUP)
            assert isinstance(rebuilt, ConsumerGroup)
            for name in ("epoch", "target_epoch", "members", "targets", "owners"):
                assert getattr(found, name) == getattr(rebuilt, name), name


TestMigrations = Migrations.TestCase
TestMigrations.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)
