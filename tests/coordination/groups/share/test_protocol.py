"""Share groups as a pure state machine: commands in, records and answers out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.coordination.groups.commands import DeleteGroup, SessionTimeout
from strom.coordination.groups.coordinator import GroupCoordinator
from strom.coordination.groups.group import ASSIGN_AT_ONCE
from strom.coordination.groups.log_format import decode, encode
from strom.coordination.groups.share.protocol import (
    AddShareTopics,
    DeleteShareTopics,
    ShareHeartbeat,
)
from strom.coordination.groups.share.records import KnownTopic
from strom.coordination.groups.topics_image import FixedTopics, TopicInfo
from strom.model.broker_settings import BrokerSettings
from strom.model.errors import ErrorCode
from strom.model.group_settings import GroupSettings

A, B = b"a" * 16, b"b" * 16
ONE_TOPIC = FixedTopics([TopicInfo("a", A, 2)])
TWO_TOPICS = FixedTopics([TopicInfo("a", A, 2), TopicInfo("b", B, 1)])


class World:
    """A coordinator whose records go through bytes, and are kept."""

    def __init__(
        self,
        topics: FixedTopics = TWO_TOPICS,
        assign_at_once: int = ASSIGN_AT_ONCE,
        **settings: str,
    ) -> None:
        self.assign_at_once = assign_at_once
        self.needs_assignment = False
        self.texts = {name.replace("_", "."): value for name, value in settings.items()}
        self.written: list[tuple[bytes, bytes | None]] = []
        self.timers: dict[object, int | None] = {}
        self.coordinator = self.fresh(topics)

    def fresh(self, topics: FixedTopics) -> GroupCoordinator:
        settings = BrokerSettings().override(self.texts)
        return GroupCoordinator(settings, topics, lambda _: GroupSettings(), self.assign_at_once)

    def carry_out(self, outcome) -> None:
        for record in outcome.records:
            pair = encode(record)
            self.written.append(pair)
            again = decode(*pair)
            assert again == record
            self.coordinator.replay(again)
        self.timers |= outcome.timers
        self.needs_assignment |= outcome.needs_assignment

    def assign(self, *, amid=lambda: None, after: int = 2) -> None:
        """Assign in the background; something else happens after so many steps."""
        assert self.needs_assignment
        self.needs_assignment = False
        for step, outcome in enumerate(self.coordinator.assign("g", 0)):
            if step == after:
                amid()
            if outcome is not None:
                self.carry_out(outcome)

    def ask(self, command):
        outcome = self.coordinator.handle(command, "ticket", 0)
        self.carry_out(outcome)
        ((_, response),) = outcome.responses
        return response

    def beat(self, member: str, epoch: int = 0, *topics: str, **more):
        names = topics or None
        return self.ask(ShareHeartbeat(group="g", member=member, epoch=epoch, topics=names, **more))

    def restart(self, topics: FixedTopics = TWO_TOPICS, *, compacted: bool = False) -> None:
        self.coordinator = self.fresh(topics)
        last: dict[bytes, bytes | None] = {}
        for key, value in self.written if compacted else ():
            last.pop(key, None)  # compaction keeps the last one, in its place
            last[key] = value
        for pair in list(last.items()) if compacted else self.written:
            record = decode(*pair)
            assert record is not None
            self.coordinator.replay(record)

    @property
    def group(self):
        return self.coordinator.find_share("g")


def test_a_member_joins_reads_and_leaves():
    world = World()
    joined = world.beat("m", 0, "a")
    assert (joined.epoch, joined.partitions) == (1, {A: (0, 1)})
    assert world.beat("m", 1).partitions is None
    assert world.timers[SessionTimeout("g", "m")] == 45_000
    left = world.beat("m", -1)
    assert (left.code, left.epoch) == (ErrorCode.NONE, -1)
    assert world.group.is_empty
    assert world.timers[SessionTimeout("g", "m")] is None


def test_a_silent_member_is_put_out_and_the_others_get_its_part():
    world = World()
    world.beat("m", 0, "a")
    world.beat("n", 0, "a")
    epoch = world.beat("m", 1).epoch
    assert world.group.members["m"].assigned.partitions == {A: (0,)}
    world.carry_out(world.coordinator.on_timer(SessionTimeout("g", "n"), 0))
    assert world.beat("m", epoch).partitions == {A: (0, 1)}


def test_a_changed_subscription_changes_the_partitions():
    world = World()
    world.beat("m", 0, "a")
    response = world.beat("m", 1, "a", "b")
    assert response.partitions == {A: (0, 1), B: (0,)}
    assert response.epoch == 2


def test_topics_that_come_later_are_assigned():
    world = World(ONE_TOPIC)
    world.beat("m", 0, "a", "b")
    world.restart(TWO_TOPICS)
    (outcome,) = filter(None, world.coordinator.on_topics_changed(0))
    world.carry_out(outcome)
    assert not any(world.coordinator.on_topics_changed(0))
    assert world.beat("m", 1).partitions == {A: (0, 1), B: (0,)}


def test_topics_that_go_are_forgotten():
    world = World()
    world.beat("m", 0, "a", "b")
    world.restart(ONE_TOPIC)
    assert world.beat("m", 1).partitions == {A: (0, 1)}
    assert set(world.group.known_topics) == {A}


def test_a_group_has_only_so_many_members():
    world = World(group_share_max_size="2")
    world.beat("m", 0, "a")
    world.beat("n", 0, "a")
    assert world.beat("o", 0, "a").code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.beat("n", 0, "a").code is ErrorCode.NONE


def test_where_a_group_is_does_not_expire():
    world = World()
    world.beat("m", 0, "a")
    world.beat("m", -1)
    assert not any(world.coordinator.expire(10**15))


def test_an_empty_group_is_deleted_with_all_its_records():
    world = World()
    world.beat("m", 0, "a")
    world.beat("m", -1)
    assert world.ask(DeleteGroup(group="g")).code is ErrorCode.NONE
    assert world.group is None
    world.restart(compacted=True)
    assert world.group is None
    left = {key: value for key, value in dict(world.written).items() if value is not None}
    assert left == {}


def test_topics_are_known_and_forgotten_by_hand():
    world = World()
    known = KnownTopic("a", A, 2)
    assert world.ask(AddShareTopics(group="g", topics=(known,))).code is ErrorCode.NONE
    assert world.group.known_topics == {A: known}
    forget = DeleteShareTopics(group="g", topic_ids=frozenset({A}))
    assert world.ask(forget).code is ErrorCode.NONE
    assert world.group.known_topics == {}
    world.beat("m", 0, "a")
    assert world.ask(forget).code is ErrorCode.NON_EMPTY_GROUP


def large_group() -> World:
    """Of two members; the second one waits for an assignment in the background."""
    world = World(assign_at_once=0)
    assert world.beat("m", 0, "a").partitions == {A: (0, 1)}
    assert not world.needs_assignment
    joined = world.beat("n", 0, "a")
    assert (joined.epoch, joined.partitions) == (1, {})
    return world


def test_members_of_a_large_group_get_what_was_computed_with_their_next_heartbeat():
    world = large_group()
    world.assign()
    assert world.beat("m", 1).partitions == {A: (0,)}
    assert world.beat("n", 1).partitions == {A: (1,)}
    assert not world.needs_assignment


def test_a_member_that_joins_amid_an_assignment_gets_its_part_with_the_next_one():
    world = large_group()
    world.assign(amid=lambda: world.beat("o", 0, "b"))
    assert world.beat("n", 1).partitions == {A: (1,)}
    world.assign()
    assert world.beat("o", 1).partitions == {B: (0,)}
    assert world.group.epoch == world.group.assignment_epoch


def test_a_member_that_leaves_amid_an_assignment_has_no_part_for_long():
    world = large_group()
    world.assign(amid=lambda: world.beat("m", -1))
    assert set(world.group.members) == {"n"}
    world.beat("n", 1)
    world.assign()
    assert world.group.members["n"].target == {A: (0, 1)}


def test_nothing_is_written_for_a_share_group_that_is_deleted_amid_an_assignment():
    world = large_group()

    def delete():
        world.beat("m", -1)
        world.beat("n", -1)
        assert world.ask(DeleteGroup(group="g")).code is ErrorCode.NONE

    world.assign(amid=delete)
    assert world.group is None
    world.restart(compacted=True)
    assert world.group is None


def test_a_crash_amid_the_assignment_of_a_share_group_only_delays_it():
    world = large_group()
    world.needs_assignment = False
    world.restart()
    assert world.beat("n", 1).partitions is None
    world.assign()
    assert world.beat("n", 1).partitions == {A: (1,)}


@pytest.mark.parametrize("compacted", [False, True])
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from("klmn"),
            st.sampled_from(["join a", "join b", "join ab", "beat", "leave", "silence"]),
        ),
        max_size=30,
    )
)
def test_the_log_has_everything(compacted, steps):
    world = World()
    for member, what in steps:
        verb, _, topics = what.partition(" ")
        if verb == "join":
            world.beat(member, 0, *topics)
        elif verb == "beat":
            known = world.group.members.get(member) if world.group else None
            world.beat(member, known.assigned.epoch if known else 7)
        elif verb == "leave":
            world.beat(member, -1)
        else:
            world.carry_out(world.coordinator.on_timer(SessionTimeout("g", member), 0))
        if world.group is not None:
            for one in world.group.members.values():
                assert one.target or not any(
                    world_topic in "ab" for world_topic in one.subscription.topics
                )
    before = world.group
    world.restart(compacted=compacted)
    after = world.group
    if before is None:
        assert after is None
        return
    assert after.members == before.members
    assert (after.epoch, after.assignment_epoch) == (before.epoch, before.assignment_epoch)
    assert after.known_topics == before.known_topics
