"""A classic group and its members.

Only what `restore` sets comes from the log. The rest (waiting members, pending ids) is in memory only;
after a restart clients rebuild it by rejoining.
"""

from collections import Counter
from dataclasses import dataclass

from strom.coordination.groups.classic.states import LEGAL_TRANSITIONS, GroupState
from strom.coordination.groups.commands import JoinedMember, Ticket
from strom.coordination.groups.group import Group, GroupType
from strom.coordination.groups.group_memory import bytes_of, bytes_of_pairs
from strom.coordination.groups.records import GroupMetadata, MemberMetadata
from strom.coordination.groups.subscription import subscribed_topics
from strom.model.errors import ApiError, ErrorCode

CONSUMER_PROTOCOL = "consumer"

Protocols = tuple[tuple[str, bytes], ...]


@dataclass
class ClassicMember:
    """One member: its protocols, its assignment, and the requests that wait for a response."""

    id: str
    instance: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    """Whether its first join has no response yet: it cannot send heartbeats before."""
    awaiting_join: Ticket | None = None
    awaiting_sync: Ticket | None = None

    def __post_init__(self) -> None:
        self.update_protocols(self.protocols)

    def update_protocols(self, protocols: Protocols) -> None:
        """Set the protocols that it supports, in order of preference."""
        self.protocols = protocols
        self.protocol_names = frozenset(name for name, _ in protocols)
        self._bytes = bytes_of(self.id, self.instance, self.client_id) + bytes_of_pairs(protocols)

    @property
    def held_bytes(self) -> int:
        return self._bytes + len(self.assignment)

    def subscription(self, protocol: str | None) -> bytes:
        """Its metadata for a protocol."""
        return dict(self.protocols).get(protocol or "", b"")

    def as_record(self, protocol: str | None, assignment: bytes) -> MemberMetadata:
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
    kind = GroupType.CLASSIC

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.state = GroupState.EMPTY
        self.since_ms = -1
        """When it entered its state; -1 if unknown."""
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.pending: set[str] = set()
        """Ids that were assigned (MEMBER_ID_REQUIRED), but whose members have not joined yet."""
        self.pending_sync: set[str] = set()
        self.is_first_rebalance = False
        self.has_grown = False
        """Whether a member joined during the initial rebalance delay."""
        self.wait_left_ms = 0
        """How long the initial rebalance delay may still be extended."""

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        assert state in LEGAL_TRANSITIONS[self.state], (self.state, state)  # noqa: S101 - see states.py
        self.state = state
        self.since_ms = now_ms

    # --- queries ------------------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def held_bytes(self) -> int:
        return sum(one.held_bytes for one in self.members.values()) + bytes_of(*self.pending)

    @property
    def assigned_bytes(self) -> int:
        return sum(len(one.assignment) for one in self.members.values())

    def member_bytes(self, member_id: str, instance: str | None) -> int:
        found = self.members.get(member_id)
        if found is None and instance is not None:
            found = self.static_member(instance)
        return 0 if found is None else found.held_bytes

    @property
    def may_expire(self) -> bool:
        """While it is empty, or stable with members whose subscriptions are known."""
        if self.is_empty:
            return not self.pending  # a member with an assigned id may join at any moment
        return self.state is GroupState.STABLE and self.protocol_type == CONSUMER_PROTOCOL

    def is_in(self, *states: GroupState) -> bool:
        return self.state in states

    def member(self, member_id: str, instance: str | None) -> ClassicMember:
        """The member; UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another member has its instance id."""
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

    def static_member(self, instance: str) -> ClassicMember | None:
        return next((one for one in self.members.values() if one.instance == instance), None)

    @property
    def waiting_to_join(self) -> list[ClassicMember]:
        return [member for member in self.members.values() if member.awaiting_join is not None]

    @property
    def have_all_joined(self) -> bool:
        return not self.pending and len(self.waiting_to_join) == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The largest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def is_compatible(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols is compatible with the others."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        supported_by_all = self._supported_by_all()
        return protocol_type == self.protocol_type and (
            not self.members or any(name in supported_by_all for name, _ in protocols)
        )

    def choose_protocol(self) -> str:
        """The protocol, supported by all members, that most members prefer."""
        candidates = self._supported_by_all()
        votes = Counter(
            next(name for name, _ in member.protocols if name in candidates)
            for member in self.members.values()
        )
        return votes.most_common(1)[0][0]

    def _supported_by_all(self) -> frozenset[str]:
        # Called at every join; most members have the same set, so the intersection is small.
        known = {member.protocol_names for member in self.members.values()}
        return frozenset.intersection(*known) if known else frozenset()

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """What the leader needs to assign partitions."""
        return tuple(
            JoinedMember(
                id=member.id,
                instance=member.instance,
                subscription=member.subscription(self.protocol),
            )
            for member in self.members.values()
        )

    def reads(self, topic: str) -> bool:
        """Whether a member is subscribed to the topic; a malformed subscription counts as yes."""
        if self.protocol_type != CONSUMER_PROTOCOL or not self.members:
            return False
        for member in self.members.values():
            topics = subscribed_topics(member.subscription(self.protocol))
            if topics is None or topic in topics:
                return True
        return False

    def check_may_delete_offsets(self) -> None:
        """NON_EMPTY_GROUP while members use a protocol whose subscriptions are opaque."""
        if not self.is_empty and self.protocol_type != CONSUMER_PROTOCOL:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    # --- members -------------------------------------------------------------------------------

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.id] = member
        self.pending.discard(member.id)
        self.leader = self.leader or member.id

    def remove(self, member_id: str) -> ClassicMember | None:
        """Remove a member; if it was the leader, the next member becomes the leader."""
        self.pending.discard(member_id)
        self.pending_sync.discard(member_id)
        removed = self.members.pop(member_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return removed

    def rename(self, member: ClassicMember, member_id: str) -> None:
        """Give a returning static member its new id, and keep its position."""
        old = member.id
        self.members = {
            member_id if known == old else known: one for known, one in self.members.items()
        }
        member.id = member_id
        if self.leader == old:
            self.leader = member_id
        if old in self.pending_sync:
            self.pending_sync.remove(old)
            self.pending_sync.add(member_id)

    # --- the log -------------------------------------------------------------------------------

    def as_record(self, assignments: dict[str, bytes], since_ms: int) -> GroupMetadata:
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
        """Apply a record; a member that matches it keeps its other protocols, which are not stored."""
        self.generation = record.generation
        self.protocol_type = record.protocol_type
        self.protocol = record.protocol
        self.leader = record.leader
        self.since_ms = record.since_ms
        self.state = GroupState.STABLE if record.members else GroupState.EMPTY
        self.members = {written.id: self._restored(written) for written in record.members}

    def _restored(self, written: MemberMetadata) -> ClassicMember:
        known = self.members.get(written.id)
        if known is not None and known.as_record(self.protocol, written.assignment) == written:
            known.assignment = written.assignment
            return known
        return ClassicMember(
            written.id,
            written.instance,
            written.client_id,
            written.client_host,
            written.rebalance_timeout_ms,
            written.session_timeout_ms,
            ((self.protocol or "", written.subscription),),
            assignment=written.assignment,
        )
