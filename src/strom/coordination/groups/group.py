"""What all group types have in common, and the interface of each type's protocol.

All types share one namespace. A type consists of a group (a Group) and its protocol (a GroupProtocol):
its commands, timers and records. To add one, write both and list the protocol in `coordinator.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar

from strom.coordination.groups.commands import (
    CommitOffsets,
    GroupCommand,
    GroupOutcome,
    GroupResponse,
    Ticket,
    Timer,
)
from strom.coordination.groups.group_memory import GroupMemory
from strom.coordination.groups.offsets import CommittedOffsets
from strom.coordination.groups.topics_image import TopicsImage
from strom.model.broker_settings import BrokerSettings
from strom.model.errors import ErrorCode
from strom.model.group_settings import GroupSettings


class GroupType(Enum):
    """The protocol of a group's members; the value is Kafka's name."""

    CLASSIC = "Classic"
    CONSUMER = "Consumer"
    SHARE = "Share"


class Group(ABC):
    kind: ClassVar[GroupType]
    id: str
    protocol_type: str
    """The protocol type in ListGroups."""
    since_ms: int
    """When it entered its state; -1 if unknown."""
    members: dict[str, Any]
    is_outdated: bool = True
    """Whether topics may have changed since the last check. Not in the log."""

    @property
    @abstractmethod
    def state_name(self) -> str:
        """Kafka's name for its state."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, so that it may be deleted."""
        return not self.members

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    @abstractmethod
    def held_bytes(self) -> int:
        """How much memory its members take."""

    @abstractmethod
    def member_bytes(self, member_id: str, instance: str | None) -> int:
        """How much of that one member takes; 0 if there is none."""

    @property
    def may_expire(self) -> bool:
        """Whether offsets of topics without subscribers may expire."""
        return self.is_empty

    @abstractmethod
    def reads(self, topic: str) -> bool:
        """Whether a member is subscribed to the topic."""

    def check_may_delete_offsets(self) -> None:
        """ApiError if the subscriptions are unknown, so that deleting offsets is unsafe."""
        return


ASSIGN_AT_ONCE = 5_000
"""Subscribed topics of all members, and partitions: an assignment of more than that is computed in the
background, in steps, as by Kafka's coordinators (`group.consumer.assignor.offload.enable`). Members get
it with their next heartbeat. This many take about 3 ms."""


@dataclass
class CoordinatorContext:
    """The state that the protocols share."""

    settings: BrokerSettings
    topics: TopicsImage
    settings_of: Callable[[str], GroupSettings]
    """The effective settings of a group."""
    memory: GroupMemory
    assign_at_once: int = ASSIGN_AT_ONCE
    groups: dict[str, Group] = field(default_factory=dict)
    """All groups by name, of every type."""
    offsets: CommittedOffsets = field(default_factory=CommittedOffsets)


G = TypeVar("G", bound=Group)


class GroupProtocol(ABC, Generic[G]):
    kind: ClassVar[GroupType]
    commands: ClassVar[tuple[type[GroupCommand], ...]]
    """The commands that it handles, for groups of any type."""
    records: ClassVar[tuple[type[Any], ...]]
    """The records that it replays."""

    def __init__(self, context: CoordinatorContext) -> None:
        self.context = context

    @abstractmethod
    def handle(self, command: Any, ticket: Ticket, out: GroupOutcome, now_ms: int) -> None:
        """Handle a command, or raise ApiError."""

    @abstractmethod
    def error_response(self, command: Any, code: ErrorCode) -> GroupResponse:
        """The response to a command that failed."""

    @abstractmethod
    def on_timer(self, group: G, timer: Timer, out: GroupOutcome, now_ms: int) -> None:
        """Handle a timer that an earlier outcome has set; timers of other types are ignored."""

    @abstractmethod
    def replay(self, record: Any) -> None:
        """Apply a record from the log."""

    @abstractmethod
    def resume(self, group: G, out: GroupOutcome) -> None:
        """After replay: restart the session timeouts of all members."""

    @abstractmethod
    def check_may_commit(
        self, group: G, command: CommitOffsets, out: GroupOutcome, now_ms: int
    ) -> None:
        """ApiError if the commit does not come from a current member."""

    def check_may_fetch(self, group: G, member_id: str | None, epoch: int) -> None:
        """ApiError if an OffsetFetch names a member or epoch that is not current."""
        return

    @abstractmethod
    def delete(self, group: G, out: GroupOutcome) -> None:
        """Delete a group without members: its tombstones, and its timers."""

    def assign(self, group: G, now_ms: int) -> Iterator[GroupOutcome | None]:
        """Assign a group whose outcome needed it; None is a pause."""
        return iter(())

    def on_topics_changed(self, now_ms: int) -> Iterable[GroupOutcome | None]:
        """Topics were created, extended or deleted; see `context.topics`."""
        return ()

    def find(self, group_id: str) -> G | None:
        """The group of that name, if it is of this type."""
        group = self.context.groups.get(group_id)
        return group if group is not None and group.kind is self.kind else None  # type: ignore[return-value]
