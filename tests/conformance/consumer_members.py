"""Members of consumer groups of the new protocol, heartbeat by heartbeat."""

import uuid
from collections.abc import Iterable
from typing import Any

from kio.schema.errors import ErrorCode

from tests.conformance.calls import Topic
from tests.conformance.members import commit_fields, fetch_fields
from tests.conformance.raw import RawClient

GROUP_RESOURCE = 32
REBALANCE_MS = 60_000
LEAVE, STATIC_LEAVE = -1, -2
Owned = dict[uuid.UUID, set[int]]


class ConsumerMember:
    """One member, with its last assignment. It owns what it was assigned, unless it is set otherwise."""

    def __init__(self, client: RawClient, group: str, instance: str | None = None) -> None:
        self.client = client
        self.group = group
        self.instance = instance
        self.id = str(uuid.uuid4())
        self.epoch = 0
        self.owns: Owned = {}

    def send(self, *, version: int = 1, **changes: Any) -> Any:
        """Any heartbeat, and its answer as it is."""
        fields = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "instance_id": self.instance,
            "rack_id": None,
            "rebalance_timeout": -1,
            "subscribed_topic_names": None,
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": None,
        }
        return self.client.call("consumer_group_heartbeat", version, **(fields | changes))

    def join(self, *topics: Topic, version: int = 1, **changes: Any) -> Any:
        """Join with a subscription, and expect that it goes well."""
        fields = {
            "member_epoch": 0,
            "rebalance_timeout": REBALANCE_MS,
            "subscribed_topic_names": [topic.name for topic in topics],
            "topic_partitions": [],
        }
        answer = self.send(version=version, **(fields | changes))
        assert answer.error_code == ErrorCode.none, answer
        self.learn(answer)
        return answer

    def heartbeat(self, **changes: Any) -> Any:
        """Say what it has, and expect that it goes well."""
        answer = self.send(**({"topic_partitions": partitions_fields(self.owns)} | changes))
        assert answer.error_code == ErrorCode.none, answer
        self.learn(answer)
        return answer

    def learn(self, answer: Any) -> None:
        """Take on what an answer says; what is to be given up is given up at once."""
        self.id, self.epoch = answer.member_id, answer.member_epoch
        if answer.assignment is not None:
            self.owns = {
                one.topic_id: set(one.partitions) for one in answer.assignment.topic_partitions
            }

    def leave(self, epoch: int = LEAVE) -> Any:
        """Leave, for good or for a while."""
        return self.send(member_epoch=epoch)

    def count(self, topic: Topic) -> int:
        """How many partitions of a topic it has."""
        return len(self.owns.get(_id(topic), ()))

    def commit(self, topic: Topic, offset: int, *, version: int = 9, **changes: Any) -> ErrorCode:
        """Commit an offset of partition 0."""
        fields = {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.epoch,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "retention_time": -1,
            "topics": [commit_fields(topic, {0: offset})],
        }
        answer = self.client.call("offset_commit", version, **(fields | changes))
        code: ErrorCode = answer.topics[0].partitions[0].error_code
        return code

    def fetch_offsets(self, topic: Topic, **changes: Any) -> Any:
        """Ask how far the group has read partition 0, as a member."""
        wanted = fetch_fields(self.group, [(topic, [0])])
        wanted |= {"member_id": self.id, "member_epoch": self.epoch} | changes
        (answer,) = self.client.call(
            "offset_fetch", 9, groups=[wanted], require_stable=False
        ).groups
        return answer


def settle(*members: ConsumerMember, rounds: int = 4) -> None:
    """Let all members send heartbeats until each owns its target assignment."""
    for _ in range(rounds):
        for member in members:
            member.heartbeat()


def describe(client: RawClient, group: str, version: int = 1) -> Any:
    """A consumer group as the broker describes it."""
    (answer,) = client.call(
        "consumer_group_describe", version, group_ids=[group], include_authorized_operations=True
    ).groups
    return answer


def set_group_config(client: RawClient, group: str, name: str, value: str) -> None:
    """Change a setting of a group."""
    config = {"name": name, "config_operation": 0, "value": value}
    resource = {"resource_type": GROUP_RESOURCE, "resource_name": group, "configs": [config]}
    answer = client.call("incremental_alter_configs", 1, resources=[resource], validate_only=False)
    assert answer.responses[0].error_code == ErrorCode.none, answer


def partitions_fields(owned: Owned) -> list[dict[str, Any]]:
    """Partitions as a heartbeat names them."""
    return [
        {"topic_id": topic_id, "partitions": sorted(indexes)} for topic_id, indexes in owned.items()
    ]


def all_of(members: Iterable[ConsumerMember], topic: Topic) -> list[int]:
    """The partitions of a topic that members have, those with two owners twice."""
    return sorted(index for member in members for index in member.owns.get(_id(topic), ()))


def _id(topic: Topic) -> uuid.UUID:
    assert topic.id is not None
    return topic.id
