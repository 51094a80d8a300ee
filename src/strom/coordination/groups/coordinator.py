"""The coordinator of groups: commands and timers in; records, answers and timers out.

A command looks, and collects in an Outcome what shall happen. What is written down (shares, offsets) is
changed by `replay` alone, in the same way at start-up and at run time. Who waits for whom is kept in
memory only, as Kafka does it.
"""

from collections.abc import Callable, Iterator, Mapping

from strom.coordination.groups import membership
from strom.coordination.groups.commands import (
    NEW_MEMBER,
    Command,
    Commit,
    DeleteGroup,
    DeleteOffsets,
    Heartbeat,
    Join,
    Leave,
    Sync,
)
from strom.coordination.groups.group import CONSUMER_PROTOCOL, Group
from strom.coordination.groups.offsets import Offsets
from strom.coordination.groups.outcome import (
    Answer,
    Answered,
    ForPartitions,
    Joined,
    JoinEnds,
    Left,
    Outcome,
    SessionEnds,
    Synced,
    SyncEnds,
    Ticket,
    Timer,
)
from strom.coordination.groups.pending_offsets import OpenTransaction
from strom.coordination.groups.rebalance import Rebalance
from strom.coordination.groups.records import (
    CommittedOffset,
    GroupGone,
    GroupMetadata,
    GroupRecord,
    OffsetCommitted,
    OffsetGone,
)
from strom.coordination.groups.states import GroupState
from strom.model.broker_settings import BrokerSettings
from strom.model.errors import ApiError, ErrorCode
from strom.model.settings import MINUTE_MS
from strom.model.topics import TopicPartition
from strom.wire.kafka.schema import Uuid


class GroupCoordinator:
    """All groups of a broker, with their committed offsets."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._groups: dict[str, Group] = {}
        self._offsets = Offsets()

    # --- looking -------------------------------------------------------------------------------

    def groups(self) -> Iterator[Group]:
        """Every group, by name."""
        for name in sorted(self._groups):
            yield self._groups[name]

    def find(self, group: str) -> Group | None:
        """The group of that name."""
        return self._groups.get(group)

    def committed(self, group: str) -> Mapping[TopicPartition, CommittedOffset]:
        """How far a group has read; empty for a group that nobody knows."""
        return self._offsets.of(group)

    def pending(self, group: str) -> frozenset[TopicPartition]:
        """The partitions for which an open transaction holds another offset of a group."""
        return self._offsets.pending(group)

    # --- commands and timers -------------------------------------------------------------------

    def handle(self, command: Command, ticket: Ticket, now_ms: int) -> Outcome:
        """Begin to do what is asked; the ticket is answered in this outcome or in a later one."""
        out = Outcome(command.group)
        try:
            # Offsets without a group's name are an old habit that Kafka still puts up with.
            if not command.group and not isinstance(command, Commit | DeleteGroup):
                raise ApiError(ErrorCode.INVALID_GROUP_ID)
            self._handle(command, ticket, out, now_ms)
        except ApiError as error:
            out.answer(ticket, refusal(command, error.code))
        return out

    def _handle(self, command: Command, ticket: Ticket, out: Outcome, now_ms: int) -> None:
        match command:
            case Join():
                self._join(command, ticket, out, now_ms)
            case Sync():
                membership.sync(self._step(command.group, out, now_ms), command, ticket)
            case Heartbeat():
                code = membership.heartbeat(self._step(command.group, out, now_ms), command)
                out.answer(ticket, Answered(code=code))
            case Leave():
                out.answer(ticket, self._leave(command, out, now_ms))
            case Commit():
                self._commit(command, ticket, out, now_ms)
            case DeleteOffsets():
                self._delete_offsets(command, ticket, out)
            case DeleteGroup():
                self._delete_group(command, ticket, out)

    def timer_fired(self, timer: Timer, now_ms: int) -> Outcome:
        """The time that an earlier outcome has set is there."""
        out = Outcome(timer.group)
        group = self._groups.get(timer.group)
        if group is None:
            return out
        step = self._step_of(group, out, now_ms)
        match timer:
            case JoinEnds():
                step.join_time_is_up()
            case SyncEnds():
                step.sync_time_is_up()
            case SessionEnds():
                membership.session_ended(step, timer.member)
        return out

    def resume(self) -> Iterator[Outcome]:
        """After the log was replayed: everyone gets a session's time to show up again."""
        for group in self._groups.values():
            out = Outcome(group.id)
            for member in group.members.values():
                out.set_timer(SessionEnds(group.id, member.id), member.session_timeout_ms)
            yield out

    def expire(self, now_ms: int) -> list[Outcome]:
        """Forget the offsets of groups that were empty for too long, and groups without any."""
        return [
            outcome
            for group in list(self._groups.values())
            if group.state is GroupState.EMPTY and not group.pending
            if (outcome := self._expire(group, now_ms)).records
        ]

    def forget_topics(self, are_gone: Callable[[str, Uuid], bool]) -> list[Outcome]:
        """Topics were deleted: nobody has read anything of those that may come in their places."""
        return [Outcome(group, [*gone]) for group, gone in self._offsets.of_topics_that(are_gone)]

    # --- the only mutator of what is written ---------------------------------------------------

    def replay(self, record: GroupRecord, transaction: OpenTransaction | None = None) -> None:
        """Take a record that is in the log into the state; `transaction` is whose part it is."""
        match record:
            case GroupMetadata():
                self._get_or_create(record.group).restore(record)
            case GroupGone():
                gone = self._groups.pop(record.group, None)
                if gone is not None:
                    gone.state = GroupState.DEAD
            case OffsetCommitted():
                self._get_or_create(record.group)
                self._offsets.replay(record, transaction)
            case OffsetGone():
                self._offsets.replay(record)

    def end_transaction(self, transaction: OpenTransaction, *, committed: bool) -> None:
        """A marker is in the log: the offsets of a transaction count from now on, or never will."""
        self._offsets.end_transaction(transaction, committed=committed)

    # --- inside --------------------------------------------------------------------------------

    def _get_or_create(self, group: str) -> Group:
        return self._groups.setdefault(group, Group(group))

    def _step(self, name: str, out: Outcome, now_ms: int) -> Rebalance:
        group = self._groups.get(name)
        if group is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return self._step_of(group, out, now_ms)

    def _step_of(self, group: Group, out: Outcome, now_ms: int) -> Rebalance:
        return Rebalance(group, out, now_ms, self._settings.group_initial_rebalance_delay_ms)

    def _join(self, command: Join, ticket: Ticket, out: Outcome, now_ms: int) -> None:
        settings = self._settings
        shortest = settings.group_min_session_timeout_ms
        if not shortest <= command.session_timeout_ms <= settings.group_max_session_timeout_ms:
            raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT)
        is_created = command.group not in self._groups and command.member == NEW_MEMBER
        if is_created:
            self._groups[command.group] = Group(command.group)
        try:
            step = self._step(command.group, out, now_ms)
            membership.join(step, command, ticket, settings.group_max_size)
        except ApiError:
            if is_created:
                del self._groups[command.group]
            raise

    def _leave(self, command: Leave, out: Outcome, now_ms: int) -> Left:
        if command.group not in self._groups:
            return Left(members=(ErrorCode.UNKNOWN_MEMBER_ID,) * len(command.leavers))
        return membership.leave(self._step(command.group, out, now_ms), command)

    def _commit(self, command: Commit, ticket: Ticket, out: Outcome, now_ms: int) -> None:
        group = self._groups.get(command.group)
        if group is not None:
            self._check_may_commit(group, command, out, now_ms)
        elif command.generation >= 0:
            known = command.knows_missing_groups and command.producer is None
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND if known else ErrorCode.ILLEGAL_GENERATION)
        out.producer = command.producer
        codes = {}
        for partition, offset in command.offsets:
            if len(offset.metadata.encode()) > self._settings.offset_metadata_max_bytes:
                codes[partition] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                codes[partition] = ErrorCode.NONE
                out.write(OffsetCommitted(command.group, partition, offset))
        out.answer(ticket, ForPartitions(partitions=codes))

    def _check_may_commit(self, group: Group, command: Commit, out: Outcome, now_ms: int) -> None:
        if command.generation < 0 and group.state is GroupState.EMPTY:
            return  # a consumer that shares with nobody, or an operator
        names_nobody = command.member == NEW_MEMBER and command.instance is None
        if command.generation < 0 and names_nobody:
            if command.producer is not None:
                return  # as clients of former days commit in transactions
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = group.member(command.member, command.instance)
        if command.generation != group.generation:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        if command.producer is not None:
            return
        if group.state is GroupState.COMPLETING:
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._step_of(group, out, now_ms).renew_session(member)

    def _delete_offsets(self, command: DeleteOffsets, ticket: Ticket, out: Outcome) -> None:
        group = self._groups.get(command.group)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
        if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER_PROTOCOL:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)
        codes = {}
        for partition in command.partitions:
            if group.reads(partition.topic):
                codes[partition] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                continue
            codes[partition] = ErrorCode.NONE
            if partition in self._offsets.of(group.id):
                out.write(OffsetGone(group.id, partition))
        out.answer(ticket, ForPartitions(partitions=codes))

    def _delete_group(self, command: DeleteGroup, ticket: Ticket, out: Outcome) -> None:
        group = self._groups.get(command.group)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
        if group.state is not GroupState.EMPTY:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)
        for gone in self._offsets.all_gone(group.id):
            out.write(gone)
        self._forget(group, out)
        out.answer(ticket, Answered())

    def _expire(self, group: Group, now_ms: int) -> Outcome:
        out = Outcome(group.id)
        gone = self._offsets.expired(
            group.id,
            empty_since_ms=group.since_ms,
            now_ms=now_ms,
            retention_ms=self._settings.offsets_retention_minutes * MINUTE_MS,
        )
        for record in gone:
            out.write(record)
        if len(gone) == len(self._offsets.of(group.id)) and not self._offsets.pending(group.id):
            self._forget(group, out)
        return out

    def _forget(self, group: Group, out: Outcome) -> None:
        """The record that ends a group; ids that were given out for it are no longer good."""
        for member_id in group.pending:
            out.cancel(SessionEnds(group.id, member_id))
        out.write(GroupGone(group.id))


def refusal(command: Command, code: ErrorCode) -> Answer:
    """What a command is answered with when nothing was done."""
    match command:
        case Join():
            return Joined(code=code, member=command.member)
        case Sync():
            return Synced(code=code)
        case Leave():
            return Left(code=code)
        case Commit():
            return ForPartitions(code=code, partitions={one: code for one, _ in command.offsets})
        case DeleteOffsets():
            return ForPartitions(code=code)
        case Heartbeat() | DeleteGroup():
            return Answered(code=code)
