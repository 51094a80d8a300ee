"""Members of share groups, each with a connection of its own, for a share session belongs to one."""

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from kio.schema.errors import ErrorCode

from tests.conformance.calls import Topic
from tests.conformance.raw import RawClient

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
WHOLE_BATCHES, STRICTLY = 0, 1
GROUP_RESOURCE = 32
_DEADLINE_S = 20


class Acknowledged(NamedTuple):
    """What became of records: one kind for all of them, or one for each."""

    first: int
    last: int
    kinds: Sequence[int]


class Acquired(NamedTuple):
    """A range of records that a member holds."""

    first: int
    last: int
    deliveries: int


def set_group_configs(client: RawClient, group: str, configs: Mapping[str, str]) -> ErrorCode:
    """Change the settings of a group."""
    changes = [
        {"name": name, "config_operation": 0, "value": value} for name, value in configs.items()
    ]
    resource = {"resource_type": GROUP_RESOURCE, "resource_name": group, "configs": changes}
    answer = client.call("incremental_alter_configs", 1, resources=[resource], validate_only=False)
    code: ErrorCode = answer.responses[0].error_code
    return code


class Sharer:
    """One member of a share group, with its last assignment."""

    def __init__(self, address: str, group: str) -> None:
        self.client = RawClient(address)
        self.group = group
        self.id = str(uuid.uuid4())
        self.epoch = 0
        self.session_epoch = 0
        self.assignment: dict[uuid.UUID, list[int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.__exit__(None, None, None)

    # --- the group -----------------------------------------------------------------------------

    def heartbeat(self, topics: Sequence[str] | None = None, **changes: Any) -> Any:
        """One heartbeat and its answer."""
        fields = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "rack_id": None,
            "subscribed_topic_names": topics,
        }
        answer = self.client.call("share_group_heartbeat", 1, **(fields | changes))
        if answer.error_code == ErrorCode.none:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.assignment = {
                    one.topic_id: list(one.partitions) for one in answer.assignment.topic_partitions
                }
        return answer

    def join(self, *topics: Topic) -> None:
        """Join, and wait until every one of these topics may be fetched from."""
        names = [topic.name for topic in topics]
        deadline = time.monotonic() + _DEADLINE_S
        answer = self.heartbeat(names, member_epoch=0)
        while answer.error_code in (ErrorCode.coordinator_not_available, ErrorCode.not_coordinator):
            assert time.monotonic() < deadline, answer
            time.sleep(0.05)
            answer = self.heartbeat(names, member_epoch=0)
        while not all(topic.id in self.assignment for topic in topics):
            assert answer.error_code == ErrorCode.none, answer
            assert time.monotonic() < deadline, self.assignment
            time.sleep(0.05)
            answer = self.heartbeat()

    def leave(self) -> Any:
        """Leave the group."""
        return self.heartbeat(member_epoch=-1)

    # --- records -------------------------------------------------------------------------------

    def begin_fetch(self, *wanted: tuple[Topic, int], version: int = 2, **changes: Any) -> int:
        """Send a fetch; the answer may have to wait for records."""
        self._fetch_version = version
        acknowledged = changes.pop("acknowledge", {})
        fields = {
            "group_id": self.group,
            "member_id": self.id,
            "share_session_epoch": self.session_epoch,
            "max_wait": 0,
            "min_bytes": 1,
            "max_bytes": 1 << 26,
            "max_records": 500,
            "batch_size": 500,
            "share_acquire_mode": WHOLE_BATCHES,
            "is_renew_ack": False,
            "topics": _topics(wanted, acknowledged),
            "forgotten_topics_data": (),
        }
        return self.client.send("share_fetch", version, **(fields | changes))

    def end_fetch(self, number: int) -> Any:
        """The answer to a fetch."""
        answer = self.client.receive("share_fetch", self._fetch_version, number)
        if answer.error_code == ErrorCode.none:
            self.session_epoch += 1
        return answer

    def fetch(self, *wanted: tuple[Topic, int], **changes: Any) -> Any:
        """One fetch and its answer."""
        return self.end_fetch(self.begin_fetch(*wanted, **changes))

    def acquire(self, topic: Topic, partition: int = 0, **changes: Any) -> list[Acquired]:
        """Fetch until something of one partition is acquired."""
        deadline = time.monotonic() + _DEADLINE_S
        while time.monotonic() < deadline:
            answer = self.fetch((topic, partition), **({"max_wait": 200} | changes))
            assert answer.error_code == ErrorCode.none, answer
            changes.pop("acknowledge", None)
            for one in partitions_of(answer):
                if one.acquired_records:
                    return acquired(one)
        raise AssertionError("nothing came")

    def acknowledge(self, *batches: tuple[Topic, int, Acknowledged], **changes: Any) -> Any:
        """One acknowledgement without fetching, and its answer."""
        acknowledged: dict[tuple[Topic, int], list[Acknowledged]] = {}
        for topic, partition, batch in batches:
            acknowledged.setdefault((topic, partition), []).append(batch)
        version = changes.pop("version", 2)
        fields = {
            "group_id": self.group,
            "member_id": self.id,
            "share_session_epoch": self.session_epoch,
            "is_renew_ack": any(RENEW in batch.kinds for _, _, batch in batches),
            "topics": _topics((), acknowledged),
        }
        answer = self.client.call("share_acknowledge", version, **(fields | changes))
        if answer.error_code == ErrorCode.none:
            self.session_epoch += 1
        return answer


def _topics(
    wanted: Sequence[tuple[Topic, int]],
    acknowledged: Mapping[tuple[Topic, int], Sequence[Acknowledged]],
) -> list[dict[str, Any]]:
    topics: dict[Any, dict[str, Any]] = {}
    for topic, partition in dict.fromkeys([*wanted, *acknowledged]):
        entry = topics.setdefault(topic.id, {"topic_id": topic.id, "partitions": []})
        batches = [
            {"first_offset": one.first, "last_offset": one.last, "acknowledge_types": one.kinds}
            for one in acknowledged.get((topic, partition), ())
        ]
        entry["partitions"].append(
            {
                "partition_index": partition,
                "acknowledgement_batches": batches,
            }
        )
    return list(topics.values())


def partitions_of(answer: Any) -> list[Any]:
    """Every partition in an answer."""
    return [one for topic in answer.responses for one in topic.partitions]


def acquired(partition: Any) -> list[Acquired]:
    """What a partition's answer says was acquired."""
    return [
        Acquired(one.first_offset, one.last_offset, one.delivery_count)
        for one in partition.acquired_records
    ]
