"""What all types of groups have in common, and what the coordinator asks of each type's protocol.

All groups share one name space, whatever their type. A type consists of a group (a Group) and of its
protocol (a GroupProtocol): its commands, timers and records. To add one, write both and name the
protocol in `coordinator.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar

from strom.coordination.groups.commands import Command, Commit
from strom.coordination.groups.offsets import Offsets
from strom.coordination.groups.outcome import Answer, Outcome, Ticket, Timer
from strom.coordination.groups.topics_image import TopicsImage
from strom.model.broker_settings import BrokerSettings
from strom.model.errors import ErrorCode
from strom.model.group_settings import GroupSettings


class GroupType(Enum):
    """The protocol that a group's members speak; the value is Kafka's name for it."""

    CLASSIC = "Classic"
    CONSUMER = "Consumer"
    SHARE = "Share"


class Group(ABC):
    """A group of any kind."""

    kind: ClassVar[GroupType]
    id: str
    protocol_type: str
    """As ListGroups tells it."""
    since_ms: int
    """When it became what it is; -1 if nobody has noted it."""

    @property
    @abstractmethod
    def state_name(self) -> str:
        """Kafka's name for what it is doing."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether it has no members; only then it may be deleted."""

    @property
    @abstractmethod
    def member_count(self) -> int:
        """How many members it has."""

    @property
    def may_expire(self) -> bool:
        """Whether offsets of topics that it does not read may be forgotten when their time has come."""
        return self.is_empty

    @abstractmethod
    def reads(self, topic: str) -> bool:
        """Whether a member is subscribed to the topic."""

    def check_may_delete_offsets(self) -> None:
        """Refuse (by an ApiError) to forget offsets of a group whose reading is not understood."""
        return


@dataclass
class CoordinatorContext:
    """What the rules of every kind work with."""

    settings: BrokerSettings
    topics: TopicsImage
    settings_of: Callable[[str], GroupSettings]
    """The settings that hold for a group."""
    groups: dict[str, Group] = field(default_factory=dict)
    """All groups by name, of every kind."""
    offsets: Offsets = field(default_factory=Offsets)


G = TypeVar("G", bound=Group)


class GroupProtocol(ABC, Generic[G]):
    """The rules of one kind of group."""

    kind: ClassVar[GroupType]
    commands: ClassVar[tuple[type[Command], ...]]
    """What it carries out; whatever the kind of the group that is named."""
    records: ClassVar[tuple[type[Any], ...]]
    """What it replays."""

    def __init__(self, context: CoordinatorContext) -> None:
        self.context = context

    @abstractmethod
    def handle(self, command: Any, ticket: Ticket, out: Outcome, now_ms: int) -> None:
        """Begin to do what is asked, or raise an ApiError."""

    @abstractmethod
    def refusal(self, command: Any, code: ErrorCode) -> Answer:
        """What one of its commands is answered with when nothing was done."""

    @abstractmethod
    def timer_fired(self, group: G, timer: Timer, out: Outcome, now_ms: int) -> None:
        """The time that an earlier outcome has set is there; a timer of another kind means nothing."""

    @abstractmethod
    def replay(self, record: Any) -> None:
        """Take a record that is in the log into the state."""

    @abstractmethod
    def resume(self, group: G, out: Outcome) -> None:
        """After the log was replayed: give everyone time to show up again."""

    @abstractmethod
    def check_may_commit(self, group: G, command: Commit, out: Outcome, now_ms: int) -> None:
        """Refuse (by an ApiError) a commit that does not come from a member in good standing."""

    def check_may_fetch(self, group: G, member_id: str | None, epoch: int) -> None:
        """Refuse (by an ApiError) to tell offsets to whoever wrongly takes itself for a member."""
        return

    @abstractmethod
    def forget(self, group: G, out: Outcome) -> None:
        """End a group without members: the records that delete it, and its timers."""

    def topics_changed(self, now_ms: int) -> Iterable[Outcome]:
        """Topics have come, grown or gone; see `context.topics`."""
        return ()

    def find(self, group_id: str) -> G | None:
        """The group of that name, if it is of this kind."""
        group = self.context.groups.get(group_id)
        return group if group is not None and group.kind is self.kind else None  # type: ignore[return-value]
