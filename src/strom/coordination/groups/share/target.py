"""The target assignment of a share group's members, for one epoch of the group.

That of a large group is computed in steps, while its members send heartbeats, join and leave.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from crc32c import crc32c

from strom.coordination.groups.share.assignor import assign_simple
from strom.coordination.groups.share.records import Partitions, ShareSubscription
from strom.coordination.groups.topics_image import TopicInfo, TopicsImage
from strom.model.steps import PausingSteps


class ShareTargets(NamedTuple):
    """The targets of members in an epoch."""

    epoch: int
    partitions: Mapping[str, Partitions]

    def of(self, member_id: str) -> Partitions:
        return self.partitions.get(member_id, {})


def topics_of(subscriptions: Iterable[ShareSubscription], image: TopicsImage) -> list[TopicInfo]:
    """The subscribed topics that exist."""
    names = sorted({name for one in subscriptions for name in one.topics})
    return [facts for name in names if (facts := image.find(name)) is not None]


def hash_of(topics: list[TopicInfo]) -> int:
    """A hash that changes when the topics do."""
    return crc32c(repr(topics).encode())


def takes_long(
    subscriptions: Mapping[str, ShareSubscription], topics: list[TopicInfo], limit: int
) -> bool:
    """Whether an assignment looks at more subscribed topics of members and partitions than the limit."""
    subscribed = sum(len(one.topics) for one in subscriptions.values())
    return subscribed + sum(topic.partitions for topic in topics) > limit


def compute_targets(
    epoch: int,
    subscriptions: Mapping[str, ShareSubscription],
    topics: list[TopicInfo],
    before: Mapping[str, Partitions],
) -> PausingSteps[ShareTargets]:
    """Compute the targets of an epoch; members keep previous ones as far as the balance allows."""
    ids = {topic.name: topic.id for topic in topics}
    wanted = {}
    for member_id, one in subscriptions.items():
        wanted[member_id] = {ids[name] for name in one.topics if name in ids}
        yield None
    partitions = {topic.id: topic.partitions for topic in topics}
    return ShareTargets(epoch, (yield from assign_simple(wanted, partitions, before)))
