"""Whatever members do, and whenever it crashes: what must hold for every consumer group."""

import itertools
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
)

from strom.coordination.groups.consumer.commands import ConsumerHeartbeat, ConsumerHeartbeatResponse
from strom.coordination.groups.consumer.group import ConsumerGroup, ConsumerState
from strom.coordination.groups.consumer.records import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    NOTHING,
    STATIC_LEAVE_EPOCH,
    Partitions,
)
from strom.coordination.groups.group import ASSIGN_AT_ONCE
from strom.model.errors import ErrorCode
from strom.model.group_settings import GroupSettings
from tests.coordination.groups.world import GroupWorld

GROUP = "g"
SESSION_MS = GroupSettings().consumer_session_timeout_ms
REBALANCE_MS = 20_000
SUBSCRIPTIONS = [frozenset({"a"}), frozenset({"a", "b"}), frozenset({"b", "c"}), frozenset[str]()]


@dataclass
class Client:
    """A consumer that does as the protocol says, however slowly, until it dies."""

    id: str
    instance: str | None
    topics: frozenset[str]
    pattern: str | None
    assignor: str | None
    epoch: int = JOIN_EPOCH
    owns: Partitions = NOTHING
    """What it works on."""
    shall: Partitions = NOTHING
    """What it was told last."""
    told_at_ms: int = 0
    is_joined: bool = False


class GroupRules(RuleBasedStateMachine):
    """Members that join, follow, leave, fall silent and lose answers, in any order, on one group."""

    clients = Bundle("clients")

    def begin(self, assign_at_once: int, interval: int, assignor: str) -> None:
        groups = GroupSettings(consumer_assignment_interval_ms=interval)
        self.world = GroupWorld(
            assign_at_once=assign_at_once,
            group_defaults=groups,
            group_consumer_assignors=(assignor, "range", "uniform"),
        )
        self.world.change_topics(a=3, b=2)
        self.everyone: list[Client] = []
        self.numbers = itertools.count()
        self.newest = 0

    @rule(
        target=clients,
        instance=st.sampled_from([None, None, None, "one", "two"]),
        topics=st.sampled_from(SUBSCRIPTIONS),
        pattern=st.sampled_from([None, None, "[ab]", "c|b.*"]),
        assignor=st.sampled_from([None, "range", "uniform"]),
    )
    def start_a_client(self, instance, topics, pattern, assignor):
        client = Client(f"m{next(self.numbers)}", instance, topics, pattern, assignor)
        self.everyone.append(client)
        self.send_one(client)
        return client

    @rule(client=clients, is_lost=st.booleans(), gives_up=st.booleans())
    def send_a_heartbeat(self, client: Client, is_lost: bool, gives_up: bool) -> None:
        self.send_one(client, is_lost=is_lost, gives_up=gives_up)

    @rule(in_order=st.booleans(), gives_up=st.booleans())
    def everyone_sends_a_heartbeat(self, in_order: bool, gives_up: bool) -> None:
        for client in self.everyone if in_order else reversed(self.everyone):
            self.send_one(client, gives_up=gives_up)
            self.each_partition_has_one_owner()

    def send_one(self, client: Client, *, is_lost: bool = False, gives_up: bool = False) -> None:
        if gives_up:
            client.owns &= client.shall
        command = self.heartbeat_of(client)
        response = self.world.responses[self.world.submit(command)]
        assert isinstance(response, ConsumerHeartbeatResponse)
        self.heard(client)
        if not is_lost:
            self.take_in(client, response)

    def heard(self, client: Client) -> None:
        """The coordinator counts the session from here, the client from the answer: not later."""
        client.told_at_ms = self.world.now_ms

    def heartbeat_of(self, client: Client) -> ConsumerHeartbeat:
        is_join = client.epoch == JOIN_EPOCH
        return ConsumerHeartbeat(
            group=GROUP,
            member=client.id,
            epoch=client.epoch,
            fresh="never",
            instance=client.instance,
            rebalance_timeout_ms=REBALANCE_MS,
            topics=client.topics,
            pattern=client.pattern,
            assignor=client.assignor,
            owned=NOTHING if is_join else client.owns,
        )

    def take_in(self, client: Client, response: ConsumerHeartbeatResponse) -> None:
        if response.code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.forget(client)
        elif response.code is ErrorCode.GROUP_ID_NOT_FOUND:
            assert client.epoch != JOIN_EPOCH
            self.forget(client)
        elif response.code in (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID):
            assert client.instance is not None
            self.forget(client)
        else:
            assert response.code is ErrorCode.NONE, response
            assert response.epoch >= client.epoch, "an epoch never goes back"
            client.epoch, client.is_joined = response.epoch, True
            if response.assignment is not None:
                client.shall = response.assignment
            # It takes up what it gets, and works on what it shall give up until it says so.
            client.owns |= client.shall

    def forget(self, client: Client) -> None:
        client.epoch, client.owns, client.shall = JOIN_EPOCH, NOTHING, NOTHING
        client.is_joined = False

    @rule(client=clients, topics=st.sampled_from(SUBSCRIPTIONS))
    def subscribe_to_other_topics(self, client: Client, topics: frozenset[str]) -> None:
        client.topics = topics

    @rule(client=clients, for_a_while=st.booleans(), is_lost=st.booleans())
    def leave(self, client: Client, for_a_while: bool, is_lost: bool) -> None:
        client.owns = NOTHING
        if not is_lost:
            is_static = for_a_while and client.instance is not None
            self.world.submit(
                ConsumerHeartbeat(
                    group=GROUP,
                    member=client.id,
                    epoch=STATIC_LEAVE_EPOCH if is_static else LEAVE_EPOCH,
                    fresh="never",
                    instance=client.instance,
                )
            )
        self.forget(client)
        client.id = f"m{next(self.numbers)}"

    @rule(a=st.sampled_from([1, 3, 4]), b=st.sampled_from([0, 2, 5]), c=st.sampled_from([0, 1]))
    def change_topics(self, a: int, b: int, c: int) -> None:
        self.world.change_topics(**{name: n for name, n in (("a", a), ("b", b), ("c", c)) if n})

    @rule(milliseconds=st.sampled_from([0, 500, 4_000, 19_000, 46_000]))
    def let_time_pass(self, milliseconds: int) -> None:
        self.wait(milliseconds)

    def wait(self, milliseconds: int) -> None:
        # Clients stop in time, before the coordinator gives what they have to others.
        for client in self.everyone:
            silent_ms = self.world.now_ms + milliseconds - client.told_at_ms
            if silent_ms >= min(SESSION_MS, REBALANCE_MS):
                client.owns = NOTHING
        self.world.wait(milliseconds)

    @rule()
    def crash_and_restart(self) -> None:
        self.world.restart()

    @rule()
    def settle_down(self) -> None:
        """Everyone who is in sends heartbeats and does as told: the group becomes stable."""
        for _ in range(8 + 2 * len(self.everyone)):
            self.wait(1_000)
            self.world.assign()
            for client in self.everyone:
                if client.is_joined:
                    client.owns &= client.shall
                    response = self.world.responses[self.world.submit(self.heartbeat_of(client))]
                    assert isinstance(response, ConsumerHeartbeatResponse)
                    self.heard(client)
                    self.take_in(client, response)
                    self.each_partition_has_one_owner()
        group = self.group()
        present = [client for client in self.everyone if client.is_joined]
        if group is None or len(group.members) != len(present):
            return  # someone is missing, and its session has not ended yet
        assert group.state in (ConsumerState.STABLE, ConsumerState.EMPTY)
        for client in present:
            assert client.owns & client.shall == group.target(client.id)
        self.everything_that_is_read_has_an_owner(group)

    def everything_that_is_read_has_an_owner(self, group: ConsumerGroup) -> None:
        for topic in self.world.topics:
            if group.reads(topic.name):
                owned = {one.partition for one in group.owners if one.topic_id == topic.id}
                assert owned == set(range(topic.partitions))

    def group(self) -> ConsumerGroup | None:
        return self.world.coordinator.find_consumer(GROUP)

    @invariant()
    def each_partition_has_one_owner(self) -> None:
        """Among the clients that work, as the clients see it."""
        if not hasattr(self, "world"):
            return
        owners: dict[object, str] = {}
        for client in self.everyone:
            for one in client.owns:
                assert owners.setdefault(one, client.id) == client.id, (one, client)

    @invariant()
    def the_log_tells_all(self) -> None:
        if not hasattr(self, "world"):
            return
        found, rebuilt = self.group(), self.world.rebuilt().find_consumer(GROUP)
        assert (found is None) == (rebuilt is None)
        if found is None or rebuilt is None:
            return
        for name in ("epoch", "target_epoch", "members", "targets", "patterns", "owners"):
            assert getattr(found, name) == getattr(rebuilt, name), name
        assert found.epoch >= self.newest
        self.newest = found.epoch
        assert found.target_epoch <= found.epoch
        assert all(member.current.epoch <= found.target_epoch for member in found.members.values())
        _owners_are_members(found)


def _owners_are_members(group: ConsumerGroup) -> None:
    owned = [
        (one, member.id)
        for member in group.members.values()
        for one in {**member.current.assigned, **member.current.revoking}
    ]
    assert len(owned) == len(group.owners), "a partition has two owners"
    assert dict(owned) == group.owners
    targets = [one for member in group.members for one in group.target(member)]
    assert len(targets) == len(set(targets)), "a partition shall have two owners"


class ConsumerGroups(GroupRules):
    """Groups that are assigned at once."""

    @initialize(interval=st.sampled_from([0, 1000]), assignor=st.sampled_from(["uniform", "range"]))
    def create(self, interval: int, assignor: str) -> None:
        self.begin(ASSIGN_AT_ONCE, interval, assignor)


class LargeConsumerGroups(GroupRules):
    """Groups that are assigned in the background, amid everything else."""

    @initialize(target=GroupRules.clients, assignor=st.sampled_from(["uniform", "range"]))
    def create(self, assignor: str) -> MultipleResults[Client]:
        self.begin(0, 0, assignor)
        self.start_a_client(None, frozenset({"a"}), None, None)
        self.start_a_client("one", frozenset({"a", "b"}), None, None)
        self.settle_down()
        return multiple(*self.everyone)

    @rule(steps=st.integers(1, 20))
    def assign_in_the_background(self, steps: int) -> None:
        self.world.assign(steps)


TestConsumerGroups = ConsumerGroups.TestCase
TestLargeConsumerGroups = LargeConsumerGroups.TestCase
LAWS = settings(max_examples=200, stateful_step_count=30, deadline=None)
TestConsumerGroups.settings = TestLargeConsumerGroups.settings = LAWS
