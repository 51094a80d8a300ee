"""A share group and its members. Everything in it comes from the log."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from crc32c import crc32c

from strom.coordination.groups.group import Group, GroupType
from strom.coordination.groups.share.records import (
    Introduction,
    KnownTopic,
    MemberAssignment,
    Partitions,
)
from strom.coordination.groups.topics_image import TopicFacts, TopicsImage
from strom.model.errors import ApiError, ErrorCode
from strom.wire.kafka.schema import Uuid

ASSIGNOR = "simple"
NEW_EPOCH = 0
NOTHING_YET = MemberAssignment(NEW_EPOCH, NEW_EPOCH, {})


@dataclass
class ShareGroupMember:
    """One member: what it said, what it shall read, and what it was assigned."""

    id: str
    said: Introduction
    target: Partitions = field(default_factory=dict)
    assigned: MemberAssignment = NOTHING_YET

    def check_epoch(self, epoch: int) -> None:
        """FENCED_MEMBER_EPOCH unless the member knows what it was assigned last, or the time before."""
        if epoch not in (NEW_EPOCH, self.assigned.epoch, self.assigned.previous_epoch):
            raise ApiError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"The member's epoch is {self.assigned.epoch}, not {epoch}: it has to join again.",
            )


class ShareGroup(Group):
    """The members of a share group, and the topics that they read."""

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
        """Every topic that it has been reading: it has state of them."""

    @property
    def state_name(self) -> str:
        """Empty, or stable: there is nothing that members would have to wait for."""
        return "Stable" if self.members else "Empty"

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    @property
    def member_count(self) -> int:
        """How many members it has."""
        return len(self.members)

    @property
    def may_expire(self) -> bool:
        """Never: where a share group is, is forgotten only by hand."""
        return False

    def reads(self, topic: str) -> bool:
        """Whether a member is subscribed to the topic."""
        return any(topic in member.said.topics for member in self.members.values())

    def member(self, member_id: str) -> ShareGroupMember:
        """The member, or UNKNOWN_MEMBER_ID."""
        found = self.members.get(member_id)
        if found is None:
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {self.id}.",
            )
        return found


def topics_of(said: Iterable[Introduction], image: TopicsImage) -> list[TopicFacts]:
    """The topics that members want to read and that there are."""
    names = sorted({name for one in said for name in one.topics})
    return [facts for name in names if (facts := image.find(name)) is not None]


def hash_of(topics: list[TopicFacts]) -> int:
    """Tells whether the topics are still those of the last time."""
    return crc32c(repr(topics).encode())
