"""Groups that are assigned in the background, and change meanwhile."""

import pytest

from strom.coordination.groups.consumer.commands import ConsumerHeartbeat, ConsumerHeartbeatResponse
from strom.coordination.groups.consumer.records import JOIN_EPOCH, LEAVE_EPOCH, NOTHING
from strom.model.group_settings import GroupSettings
from tests.coordination.groups.world import GroupWorld

PARTITIONS = 4


class LargeGroup:
    """A group of which every assignment but the first is computed in the background."""

    def __init__(self) -> None:
        self.world = GroupWorld(
            assign_at_once=0, group_defaults=GroupSettings(consumer_assignment_interval_ms=0)
        )
        self.world.change_topics(a=PARTITIONS)
        self.epochs: dict[str, int] = {}

    def beat(self, member: str, instance: str | None = None) -> ConsumerHeartbeatResponse:
        """A heartbeat of a member; the first one joins."""
        epoch = self.epochs.get(member, JOIN_EPOCH)
        response = self.world.responses[
            self.world.submit(
                ConsumerHeartbeat(
                    group="g",
                    member=member,
                    epoch=epoch,
                    fresh="never",
                    instance=instance,
                    rebalance_timeout_ms=10_000,
                    topics=frozenset({"a"}),
                    owned=NOTHING,
                )
            )
        ]
        assert isinstance(response, ConsumerHeartbeatResponse)
        assert not response.code, response
        self.epochs[member] = response.epoch
        return response

    def leave(self, member: str, epoch: int = LEAVE_EPOCH, instance: str | None = None) -> None:
        command = ConsumerHeartbeat(
            group="g", member=member, epoch=epoch, fresh="never", instance=instance
        )
        self.world.submit(command)

    @property
    def group(self):
        return self.world.coordinator.find_consumer("g")

    def sizes(self) -> dict[str, int]:
        """How many partitions each member shall have."""
        return {member: len(target) for member, target in self.group.targets.items()}


def test_the_first_assignment_does_not_wait():
    large = LargeGroup()
    assert len(large.beat("m").assignment) == PARTITIONS
    assert not large.world.assigning


def test_members_get_what_was_computed_with_their_next_heartbeat():
    large = LargeGroup()
    large.beat("m")
    assert large.beat("n").assignment == NOTHING
    assert large.group.state_name == "Assigning"
    large.world.assign()
    assert large.sizes() == {"m": 2, "n": 2}
    large.beat("m")
    assert len(large.beat("n").assignment) == 2


def test_a_member_that_joins_meanwhile_gets_its_part_with_the_next_assignment():
    large = LargeGroup()
    large.beat("m")
    large.beat("n")
    large.beat("o")  # the snapshot was taken before
    large.world.assign()
    assert large.sizes() == {"m": 2, "n": 2, "o": 0}
    assert large.group.state_name == "Assigning"
    large.beat("o")
    large.world.assign()
    assert sum(large.sizes().values()) == PARTITIONS
    assert large.sizes()["o"] == 1


def test_the_part_of_a_member_that_leaves_meanwhile_goes_to_others_with_the_next_assignment():
    large = LargeGroup()
    large.beat("m")
    large.beat("n")
    large.world.assign(2)
    large.leave("m")
    large.world.assign()
    assert large.sizes() == {"n": 2}
    large.beat("n")
    large.world.assign()
    assert large.sizes() == {"n": PARTITIONS}


def test_a_static_member_that_is_replaced_meanwhile_gets_what_was_computed_for_it():
    large = LargeGroup()
    large.beat("m")
    large.beat("n", "one")
    large.world.assign(2)
    large.leave("n", -2, "one")
    large.beat("later", "one")
    large.world.assign()
    assert large.sizes() == {"m": 2, "later": 2}
    assert large.group.target_epoch == large.group.epoch


def test_an_assignment_that_would_leave_a_member_without_partitions_for_good_is_dropped():
    large = LargeGroup()
    large.beat("m")
    large.beat("n")
    large.world.assign(2)
    large.epochs["n"] = JOIN_EPOCH
    large.beat("n", "one")  # it becomes static, which begins no new epoch
    large.world.assign()
    large.beat("m")
    large.world.assign()
    assert large.sizes() == {"m": 2, "n": 2}


def test_an_assignment_that_is_older_than_the_one_of_the_group_is_dropped():
    large = LargeGroup()
    large.beat("m")
    large.beat("n")
    large.world.assign(2)
    large.leave("n")
    large.world.coordinator._context.assign_at_once = 1_000  # as if it had become small
    large.beat("m")
    assert large.sizes() == {"m": PARTITIONS}
    large.world.assign()
    assert large.sizes() == {"m": PARTITIONS}
    assert large.group.target_epoch == large.group.epoch


def test_nothing_is_written_for_a_group_that_is_deleted_and_recreated_meanwhile():
    large = LargeGroup()
    large.beat("m")
    large.beat("n")
    large.world.assign(2)
    del large.world.coordinator._context.groups["g"]
    large.epochs.clear()
    large.beat("new")
    large.world.assign()
    assert large.sizes() == {"new": PARTITIONS}


@pytest.mark.parametrize("steps", range(1, 12))
def test_a_crash_amid_an_assignment_only_delays_it(steps):
    large = LargeGroup()
    large.beat("m")
    large.beat("n")
    large.world.assign(steps)
    large.world.restart()
    large.beat("m")
    large.world.assign()
    assert large.sizes() == {"m": 2, "n": 2}
