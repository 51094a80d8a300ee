"""Members of classic groups, each with a connection of its own, for a join may wait for others."""

import struct
import time
from collections.abc import Iterable
from typing import Any, Self

from kio.schema.errors import ErrorCode

from tests.conformance.calls import Topic, retry
from tests.conformance.raw import RawClient

CONSUMER = "consumer"
RANGE = "range"
SESSION_MS = 6_000
REBALANCE_MS = 5_000
_DEADLINE_S = 20


def find_coordinator(client: RawClient, group: str) -> None:
    """Return when the group has a coordinator; Kafka first has to create its internal topic."""

    def ask() -> Any:
        answer = client.call("find_coordinator", 6, key_type=0, coordinator_keys=[group])
        return answer.coordinators[0]

    found = retry(ask, while_code=ErrorCode.coordinator_not_available)
    assert found.error_code == ErrorCode.none

    # Found is not loaded: for a moment the broker may not know yet that it is the one.
    deadline = time.monotonic() + _DEADLINE_S
    while _describe(client, group).error_code != ErrorCode.none:
        assert time.monotonic() < deadline, _describe(client, group)
        time.sleep(0.05)


def _describe(client: RawClient, group: str) -> Any:
    answer = client.call("describe_groups", 5, groups=[group], include_authorized_operations=False)
    return answer.groups[0]


def subscription(*topics: str) -> bytes:
    """What a consumer says of itself: version, topics, user data."""
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


class GroupMember:
    """One member, with the last response that it got."""

    def __init__(self, address: str, group: str, instance: str | None = None) -> None:
        self.client = RawClient(address)
        self.group = group
        self.instance = instance
        self.id = ""
        self.generation = -1
        self.protocols: list[tuple[str, bytes]] = [(RANGE, subscription("t"))]
        self._joining = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.__exit__(None, None, None)

    def begin_join(self, *, version: int = 9, **changes: Any) -> None:
        """Send a join; the answer may have to wait for others."""
        fields = {
            "group_id": self.group,
            "session_timeout": SESSION_MS,
            "rebalance_timeout": REBALANCE_MS,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "protocol_type": CONSUMER,
            "protocols": [{"name": name, "metadata": data} for name, data in self.protocols],
            "reason": None,
        }
        self._joining = self.client.send("join_group", version, **(fields | changes))

    def end_join(self, *, version: int = 9) -> Any:
        """The answer to a join."""
        answer = self.client.receive("join_group", version, self._joining)
        if answer.error_code in (ErrorCode.none, ErrorCode.member_id_required):
            self.id, self.generation = answer.member_id, answer.generation_id
        return answer

    def ask_to_join(self, *, version: int = 9, **changes: Any) -> Any:
        """One join and its answer."""
        self.begin_join(version=version, **changes)
        return self.end_join(version=version)

    def get_id(self) -> None:
        """Get an id, as every new member that is not static."""
        answer = self.ask_to_join()
        assert answer.error_code == ErrorCode.member_id_required, answer

    def join(self) -> Any:
        """Join as a client does, and expect that it goes well."""
        if not self.id and self.instance is None:
            self.get_id()
        answer = self.ask_to_join()
        assert answer.error_code == ErrorCode.none, answer
        return answer

    def begin_sync(self, assignments: dict[str, bytes] | None = None, **changes: Any) -> int:
        """Send a sync; the answer waits for the leader."""
        fields = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "protocol_type": CONSUMER,
            "protocol_name": RANGE,
            "assignments": [
                {"member_id": member, "assignment": share}
                for member, share in (assignments or {}).items()
            ],
        }
        return self.client.send("sync_group", 5, **(fields | changes))

    def end_sync(self, number: int) -> Any:
        """The answer to a sync."""
        return self.client.receive("sync_group", 5, number)

    def sync(self, assignments: dict[str, bytes] | None = None, **changes: Any) -> Any:
        """One sync and its answer."""
        return self.end_sync(self.begin_sync(assignments, **changes))

    def become_stable(self) -> None:
        """Join and get a share, alone."""
        assert self.join().leader == self.id
        assert self.sync({self.id: b"all"}).assignment == b"all"

    def heartbeat(self, **changes: Any) -> ErrorCode:
        """Be alive."""
        fields = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
        }
        code: ErrorCode = self.client.call("heartbeat", 4, **(fields | changes)).error_code
        return code

    def leave(self, *others: "GroupMember") -> Any:
        """Leave, alone or with others."""
        members = [
            {"member_id": one.id, "group_instance_id": one.instance, "reason": None}
            for one in (self, *others)
        ]
        return self.client.call("leave_group", 5, group_id=self.group, members=members)

    def commit(self, topic: Topic, offset: int, *, version: int = 9, **changes: Any) -> ErrorCode:
        """Commit an offset of partition 0."""
        fields = {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "retention_time": -1,
            "topics": [commit_fields(topic, {0: offset})],
        }
        answer = self.client.call("offset_commit", version, **(fields | changes))
        code: ErrorCode = answer.topics[0].partitions[0].error_code
        return code


def commit_fields(topic: Topic, offsets: dict[int, int], metadata: str = "") -> dict[str, Any]:
    """One topic of a commit, for all versions."""
    return {
        "name": topic.name,
        "topic_id": topic.id,
        "partitions": [
            {
                "partition_index": index,
                "committed_offset": offset,
                "committed_leader_epoch": -1,
                "committed_metadata": metadata,
            }
            for index, offset in offsets.items()
        ],
    }


def fetch_fields(group: str, topics: Iterable[tuple[Topic, list[int]]] | None) -> dict[str, Any]:
    """An offset fetch for one group from version 8 on."""
    wanted = None
    if topics is not None:
        wanted = [
            {"name": topic.name, "topic_id": topic.id, "partition_indexes": indexes}
            for topic, indexes in topics
        ]
    return {"group_id": group, "member_id": None, "member_epoch": -1, "topics": wanted}


def committed(client: RawClient, group: str, *, version: int = 9) -> dict[tuple[str, int], int]:
    """Everything that a group has committed."""
    wanted = [fetch_fields(group, None)]
    (answer,) = client.call("offset_fetch", version, groups=wanted, require_stable=False).groups
    assert answer.error_code == ErrorCode.none
    return {
        (topic.name, one.partition_index): one.committed_offset
        for topic in answer.topics
        for one in topic.partitions
    }
