"""A share group and its members. Its whole state comes from the log."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from crc32c import crc32c

from strom.coordination.groups.group import Group, GroupType
from strom.coordination.groups.share.records import (
    KnownTopic,
    MemberAssignment,
    Partitions,
    ShareSubscription,
)
from strom.coordination.groups.topics_image import TopicInfo, TopicsImage
from strom.model.errors import ApiError, ErrorCode
from strom.wire.kafka.schema import Uuid

ASSIGNOR = "simple"
NEW_EPOCH = 0
NOTHING_YET = MemberAssignment(NEW_EPOCH, NEW_EPOCH, {})


@dataclass
class ShareGroupMember:
    """One member: its subscription, its target and its current assignment."""

    id: str
    subscription: ShareSubscription
    target: Partitions = field(default_factory=dict)
    assigned: MemberAssignment = NOTHING_YET

    def check_epoch(self, epoch: int) -> None:
        """FENCED_MEMBER_EPOCH unless it is the member's current or previous epoch."""
        if epoch not in (NEW_EPOCH, self.assigned.epoch, self.assigned.previous_epoch):
            raise ApiError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"The member epoch is {self.assigned.epoch}, not {epoch}; the member must rejoin.",
            )


class ShareGroup(Group):
    kind: ClassVar[GroupType] = GroupType.SHARE

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.protocol_type = "share"
        self.since_ms = -1
        self.epoch = 0
        self.topics_hash = 0
        self.assignment_epoch = 0
        self.members: dict[str, ShareGroupMember] = {}
        self.known_topics: dict[Uuid, KnownTopic] = {}
        """Every topic for which the group has share state."""

    @property
    def state_name(self) -> str:
        """Empty or Stable: share groups need no rebalance."""
        return "Stable" if self.members else "Empty"

    @property
    def may_expire(self) -> bool:
        """Never: the state of a share group is deleted only by an administrator."""
        return False

    def reads(self, topic: str) -> bool:
        return any(topic in member.subscription.topics for member in self.members.values())

    def member(self, member_id: str) -> ShareGroupMember:
        """The member, or UNKNOWN_MEMBER_ID."""
        found = self.members.get(member_id)
        if found is None:
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {self.id}.",
            )
        return found


def topics_of(subscription: Iterable[ShareSubscription], image: TopicsImage) -> list[TopicInfo]:
    """The subscribed topics that exist."""
    names = sorted({name for one in subscription for name in one.topics})
    return [facts for name in names if (facts := image.find(name)) is not None]


def hash_of(topics: list[TopicInfo]) -> int:
    """A hash that changes when the topics do."""
    return crc32c(repr(topics).encode())
