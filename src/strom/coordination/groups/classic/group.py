"""A classic group and its members, with the questions one can ask of them.

Only what `restore` sets comes from the log. The rest (who waits, who has yet to come) lives in memory,
and clients build it up again after a restart by joining again.
"""

from collections import Counter
from dataclasses import dataclass

from strom.coordination.groups.classic.states import LEGAL, GroupState
from strom.coordination.groups.group import Group, GroupType
from strom.coordination.groups.outcome import JoinedMember, Ticket
from strom.coordination.groups.records import GroupMetadata, MemberMetadata
from strom.coordination.groups.subscription import subscribed_topics
from strom.model.errors import ApiError, ErrorCode

CONSUMER_PROTOCOL = "consumer"

Protocols = tuple[tuple[str, bytes], ...]


@dataclass
class Member:
    """One member: what it asked for, its share, and what it waits for."""

    id: str
    instance: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    """Whether its first join is still unanswered: it cannot send heartbeats before."""
    awaiting_join: Ticket | None = None
    awaiting_sync: Ticket | None = None

    def __post_init__(self) -> None:
        self.say(self.protocols)

    def say(self, protocols: Protocols) -> None:
        """Take in which protocols it knows, the one it likes best first."""
        self.protocols = protocols
        self.protocol_names = frozenset(name for name, _ in protocols)

    def subscription(self, protocol: str | None) -> bytes:
        """What it said of itself for a protocol."""
        return dict(self.protocols).get(protocol or "", b"")

    def as_record(self, protocol: str | None, assignment: bytes) -> MemberMetadata:
        """The member as it is written down, with its share."""
        return MemberMetadata(
            self.id,
            self.instance,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.subscription(protocol),
            assignment,
        )


class ClassicGroup(Group):
    """The members of a group, its state and its generation."""

    kind = GroupType.CLASSIC

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.state = GroupState.EMPTY
        self.since_ms = -1
        """When it became what it is; -1 if nobody has noted it."""
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.pending: set[str] = set()
        """Ids that were given out and have not been used yet."""
        self.yet_to_sync: set[str] = set()
        self.is_first_rebalance = False
        self.has_grown = False
        """Whether someone came in while the first rebalance waits for more."""
        self.wait_left_ms = 0
        """How much longer the first rebalance may wait."""

    def move(self, state: GroupState, now_ms: int) -> None:
        """Go over to another state."""
        assert state in LEGAL[self.state], (self.state, state)  # noqa: S101 - see states.py
        self.state = state
        self.since_ms = now_ms

    # --- looking -------------------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        """Kafka's name for its state."""
        return self.state.value

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return self.state is GroupState.EMPTY

    @property
    def member_count(self) -> int:
        """How many members it has."""
        return len(self.members)

    @property
    def may_expire(self) -> bool:
        """While it is empty, and while all of its members say which topics they read."""
        if self.is_empty:
            return not self.pending  # whoever was given an id may join any moment
        return self.state is GroupState.STABLE and self.protocol_type == CONSUMER_PROTOCOL

    def is_in(self, *states: GroupState) -> bool:
        """Whether it is in one of these states."""
        return self.state in states

    def member(self, member_id: str, instance: str | None) -> Member:
        """The member, or UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another has its place."""
        if instance is not None:
            owner = self.static_member(instance)
            if owner is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
            if owner.id != member_id:
                raise ApiError(ErrorCode.FENCED_INSTANCE_ID)
        found = self.members.get(member_id)
        if found is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return found

    def static_member(self, instance: str) -> Member | None:
        """The member with this instance id."""
        return next((one for one in self.members.values() if one.instance == instance), None)

    @property
    def waiting_to_join(self) -> list[Member]:
        """Members whose join is unanswered."""
        return [member for member in self.members.values() if member.awaiting_join is not None]

    @property
    def everyone_has_joined(self) -> bool:
        """Whether there is nobody left to wait for."""
        return not self.pending and len(self.waiting_to_join) == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest time that a member may take to join again."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def fits(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols can be one with the others."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        known_to_all = self._known_to_all()
        return protocol_type == self.protocol_type and (
            not self.members or any(name in known_to_all for name, _ in protocols)
        )

    def choose_protocol(self) -> str:
        """The protocol known to all that most members like best."""
        candidates = self._known_to_all()
        votes = Counter(
            next(name for name, _ in member.protocols if name in candidates)
            for member in self.members.values()
        )
        return votes.most_common(1)[0][0]

    def _known_to_all(self) -> frozenset[str]:
        # Asked at every join, of all members; most of them know the same.
        known = {member.protocol_names for member in self.members.values()}
        return frozenset.intersection(*known) if known else frozenset()

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """What the leader needs to know to share out partitions."""
        return tuple(
            JoinedMember(
                id=member.id,
                instance=member.instance,
                subscription=member.subscription(self.protocol),
            )
            for member in self.members.values()
        )

    def reads(self, topic: str) -> bool:
        """Whether a member is subscribed to the topic; a consumer that cannot be understood may be."""
        if self.protocol_type != CONSUMER_PROTOCOL or not self.members:
            return False
        for member in self.members.values():
            topics = subscribed_topics(member.subscription(self.protocol))
            if topics is None or topic in topics:
                return True
        return False

    def check_may_delete_offsets(self) -> None:
        """NON_EMPTY_GROUP while there are members who do not say which topics they read."""
        if not self.is_empty and self.protocol_type != CONSUMER_PROTOCOL:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    # --- changing ------------------------------------------------------------------------------

    def add(self, member: Member, protocol_type: str) -> None:
        """Take in a member."""
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.id] = member
        self.pending.discard(member.id)
        self.leader = self.leader or member.id

    def remove(self, member_id: str) -> Member | None:
        """Take out a member; the leader's place goes to the next."""
        self.pending.discard(member_id)
        self.yet_to_sync.discard(member_id)
        removed = self.members.pop(member_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return removed

    def rename(self, member: Member, member_id: str) -> None:
        """Give a static member that came back the id it has from now on, and keep its place."""
        old = member.id
        self.members = {
            member_id if known == old else known: one for known, one in self.members.items()
        }
        member.id = member_id
        if self.leader == old:
            self.leader = member_id
        if old in self.yet_to_sync:
            self.yet_to_sync.remove(old)
            self.yet_to_sync.add(member_id)

    # --- the log -------------------------------------------------------------------------------

    def as_record(self, assignments: dict[str, bytes], since_ms: int) -> GroupMetadata:
        """The group as it is written down, with the shares of its members."""
        return GroupMetadata(
            group=self.id,
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            since_ms=since_ms,
            members=tuple(
                member.as_record(self.protocol, assignments.get(member.id, b""))
                for member in self.members.values()
            ),
        )

    def restore(self, record: GroupMetadata) -> None:
        """Be what the record says; a member that it was made from keeps the rest of what it said."""
        self.generation = record.generation
        self.protocol_type = record.protocol_type
        self.protocol = record.protocol
        self.leader = record.leader
        self.since_ms = record.since_ms
        self.state = GroupState.STABLE if record.members else GroupState.EMPTY
        self.members = {written.id: self._restored(written) for written in record.members}

    def _restored(self, written: MemberMetadata) -> Member:
        known = self.members.get(written.id)
        if known is not None and known.as_record(self.protocol, written.assignment) == written:
            known.assignment = written.assignment
            return known
        return Member(
            written.id,
            written.instance,
            written.client_id,
            written.client_host,
            written.rebalance_timeout_ms,
            written.session_timeout_ms,
            ((self.protocol or "", written.subscription),),
            assignment=written.assignment,
        )
