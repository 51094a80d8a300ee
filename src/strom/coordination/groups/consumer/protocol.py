"""The rules of consumer groups: what a heartbeat brings about."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

from strom.coordination.groups.classic.group import ClassicGroup
from strom.coordination.groups.commands import (
    Command,
    Commit,
    Heartbeat,
    Join,
    Leave,
    Sync,
)
from strom.coordination.groups.consumer import classic_members
from strom.coordination.groups.consumer.commands import (
    NO_TIMEOUT,
    ClassicJoinEnds,
    ClassicSyncEnds,
    ConsumerHeartbeat,
    HeartbeatAnswer,
    RevocationEnds,
)
from strom.coordination.groups.consumer.group import ConsumerGroup
from strom.coordination.groups.consumer.membership import Step, check_epoch, tombstones
from strom.coordination.groups.consumer.migration import (
    check_may_upgrade,
    downgrade,
    leave_classic_life,
    may_downgrade,
    upgrade,
)
from strom.coordination.groups.consumer.records import (
    RECORDS,
    ConsumerRecord,
    GroupEpoch,
    MemberHas,
    MemberSaid,
    MemberTarget,
    PatternResolved,
    TargetEpoch,
)
from strom.coordination.groups.consumer.requests import check_request
from strom.coordination.groups.consumer.values import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    MemberState,
    Subscription,
    TopicIdPartition,
)
from strom.coordination.groups.group import GroupProtocol, GroupType
from strom.coordination.groups.outcome import (
    Answer,
    Answered,
    Joined,
    Outcome,
    SessionEnds,
    Ticket,
    Timer,
)
from strom.coordination.groups.records import GroupGone
from strom.model.errors import ApiError, ErrorCode


class ConsumerGroups(GroupProtocol[ConsumerGroup]):
    """Heartbeats: members join, follow the target, and leave."""

    kind = GroupType.CONSUMER
    commands: ClassVar[tuple[type[Command], ...]] = (ConsumerHeartbeat,)
    records = RECORDS

    # --- heartbeats ----------------------------------------------------------------------------

    def handle(self, command: ConsumerHeartbeat, ticket: Ticket, out: Outcome, now_ms: int) -> None:
        """Do what the heartbeat asks; the answer never waits for others."""
        try:
            check_request(command, self.context.settings.group_consumer_assignors)
            if command.epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
                answer = self._leave(command, out, now_ms)
            else:
                answer = self._heartbeat(command, out, now_ms)
        except ApiError as error:
            out.discard()
            answer = HeartbeatAnswer(code=error.code, message=error.message)
        out.answer(ticket, answer)

    def refusal(self, command: ConsumerHeartbeat, code: ErrorCode) -> Answer:
        """An answer that says only why not."""
        if code is ErrorCode.INVALID_GROUP_ID:
            code = ErrorCode.INVALID_REQUEST
        return HeartbeatAnswer(code=code, message=code.text)

    def _heartbeat(self, command: ConsumerHeartbeat, out: Outcome, now_ms: int) -> HeartbeatAnswer:
        is_join = command.epoch == JOIN_EPOCH
        step = Step(self.context, self._group_for(command, out), out, now_ms)
        step.check_room(command.member)
        member_id = command.member or command.fresh
        if is_join:
            before = step.joining(member_id, command.instance, is_classic=False)
        else:
            before = step.member(member_id, command.instance)
            check_epoch(before, command)
        after = step.follow(before, _what_it_says(before.said, command), command.owned)
        step.renew_session(after)
        says_all = command.rebalance_timeout_ms != NO_TIMEOUT and command.owned is not None
        says_all = says_all and (command.topics is not None or command.pattern is not None)
        is_told = is_join or says_all or after.has.assigned.keys() != before.has.assigned.keys()
        former = self.context.groups.get(command.group)
        if isinstance(former, ClassicGroup):
            leave_classic_life(former, out)
        return HeartbeatAnswer(
            member=member_id,
            epoch=after.has.epoch,
            interval_ms=self.context.settings_of(command.group).consumer_heartbeat_interval_ms,
            assignment=frozenset(after.has.assigned) if is_told else None,
        )

    def _group_for(self, command: ConsumerHeartbeat, out: Outcome) -> ConsumerGroup:
        """The group that a heartbeat is for; joining makes one, or takes over a classic one."""
        found = self.context.groups.get(command.group)
        if isinstance(found, ConsumerGroup):
            return found
        if command.epoch != JOIN_EPOCH:
            raise not_found(command.group, exists=found is not None)
        if found is None:
            return ConsumerGroup(command.group)
        if not isinstance(found, ClassicGroup):
            raise not_found(command.group, exists=True)
        if found.is_empty:
            out.write(GroupGone(command.group))
            return ConsumerGroup(command.group)
        check_may_upgrade(found, self.context)
        return upgrade(found, self.context.topics, out)

    def _leave(self, command: ConsumerHeartbeat, out: Outcome, now_ms: int) -> HeartbeatAnswer:
        group = self.find(command.group)
        if group is None:
            raise not_found(command.group, exists=command.group in self.context.groups)
        step = Step(self.context, group, out, now_ms)
        member = step.member(command.member, command.instance)
        if command.epoch == STATIC_LEAVE_EPOCH:
            step.leave_for_a_while(member)
        else:
            self._put_out(group, [member], out, now_ms)
        return HeartbeatAnswer(member=member.id, epoch=command.epoch)

    def _put_out(
        self, group: ConsumerGroup, members: Sequence[ConsumerMember], out: Outcome, now_ms: int
    ) -> None:
        """Take members out; if that leaves only classic ones, the group is theirs again."""
        step = Step(self.context, group, out, now_ms)
        step.put_out([member.id for member in members])
        was_mixed = any(member.said.classic is None for member in members)
        if was_mixed and may_downgrade(step.draft.group, self.context):
            out.records.clear()
            downgrade(group, step.draft.group, self.context.topics, out, now_ms)

    # --- classic members of a consumer group ---------------------------------------------------

    def serve_classic(
        self,
        group: ConsumerGroup,
        command: Join | Sync | Heartbeat | Leave,
        out: Outcome,
        now_ms: int,
    ) -> Answer:
        """Do what a classic member asks of a group that is no longer a classic one."""
        step = Step(self.context, group, out, now_ms)
        match command:
            case Join():
                return self._join(group, step, command)
            case Sync():
                return classic_members.sync(step, command)
            case Heartbeat():
                return Answered(code=classic_members.heartbeat(step, command))
            case Leave():
                left, members = classic_members.leave(step, command)
                if members:
                    self._put_out(group, members, out, now_ms)
                return left

    def _join(self, group: ConsumerGroup, step: Step, command: Join) -> Joined:
        if self.context.settings.group_consumer_migration_policy == "disabled":
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        replaced = group.static_member(command.instance) if command.instance else None
        joined = classic_members.join(step, command)
        is_last = replaced is not None and replaced.said.classic is None
        if is_last and may_downgrade(step.draft.group, self.context):
            after, out = step.draft.group, step.out
            out.discard()
            generation = downgrade(group, after, self.context.topics, out, step.now_ms)
            return replace(joined, generation=generation)
        return joined

    # --- time, the log, topics -----------------------------------------------------------------

    def timer_fired(self, group: ConsumerGroup, timer: Timer, out: Outcome, now_ms: int) -> None:
        """Put out whoever was silent, or held on to partitions, for too long."""
        if not isinstance(timer, SessionEnds | RevocationEnds | ClassicJoinEnds | ClassicSyncEnds):
            return
        member = group.members.get(timer.member)
        if member is None:
            return
        if isinstance(timer, RevocationEnds) and member.has.state is not MemberState.UNREVOKED:
            return
        self._put_out(group, [member], out, now_ms)

    def replay(self, record: ConsumerRecord) -> None:
        """Take on what a record says; the group begins with its first record."""
        groups = self.context.groups
        group = self.find(record.group)
        if isinstance(record, GroupEpoch) and record.epoch is None:
            if group is not None:
                del groups[record.group]
            return
        if group is None:
            if _is_tombstone(record):
                return
            # What was there before was ended by a record, or held only offsets.
            group = groups[record.group] = ConsumerGroup(record.group)
        group.apply(record)

    def resume(self, group: ConsumerGroup, out: Outcome) -> None:
        """Everyone gets a session's time, and whoever has to give up partitions the time for that."""
        step = Step(self.context, group, out, 0)
        for member in group.members.values():
            step.renew_session(member)
            if member.has.state is MemberState.UNREVOKED and member.said.classic is None:
                timer = RevocationEnds(group.id, member.id)
                out.set_timer(timer, member.said.rebalance_timeout_ms)

    def forget(self, group: ConsumerGroup, out: Outcome) -> None:
        """The records that end a group."""
        for record in tombstones(group):
            out.write(record)

    def topics_changed(self, now_ms: int) -> Iterable[Outcome]:
        """Every group looks at its topics again with the next heartbeat."""
        for group in self.context.groups.values():
            if isinstance(group, ConsumerGroup):
                group.is_outdated = True
        return ()

    # --- offsets -------------------------------------------------------------------------------

    def check_may_commit(
        self, group: ConsumerGroup, command: Commit, out: Outcome, now_ms: int
    ) -> None:
        """Members may, for what they have had since the epoch they know; anyone if there are none."""
        if command.generation < 0 and group.is_empty:
            return
        names_nobody = not command.member and command.instance is None
        if command.producer is not None and command.generation < 0 and names_nobody:
            return  # as clients of former days commit in transactions
        member = group.members.get(command.member)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        is_too_old = command.producer is None and not command.knows_missing_groups
        if member.said.classic is None and is_too_old:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        if command.generation > member.has.epoch:
            raise ApiError(_wrong_epoch(member))
        if command.generation < member.has.epoch and not self._had_all(member, command):
            raise ApiError(_wrong_epoch(member))

    def _had_all(self, member: ConsumerMember, command: Commit) -> bool:
        """Whether the member has had every partition since the epoch that it knows, or before."""
        for partition, _ in command.offsets:
            facts = self.context.topics.find(partition.topic)
            if facts is None:
                return False
            one = TopicIdPartition(facts.id, partition.partition)
            since = member.has.assigned.get(one, member.has.revoking.get(one))
            if since is None or command.generation < since:
                return False
        return True

    def check_may_fetch(self, group: ConsumerGroup, member_id: str | None, epoch: int) -> None:
        """Members of the present epoch may, and whoever does not claim to be one."""
        if member_id is None and epoch < 0:
            return
        member = group.members.get(member_id or "")
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        if epoch != member.has.epoch:
            raise ApiError(_wrong_epoch(member))


def _what_it_says(known: Subscription, command: ConsumerHeartbeat) -> Subscription:
    """What was known of a member, with what it says now."""
    timeout_ms = command.rebalance_timeout_ms
    return replace(
        known,
        instance=known.instance if command.instance is None else command.instance,
        rack=known.rack if command.rack is None else command.rack,
        client_id=command.client_id,
        client_host=command.client_host,
        topics=known.topics if command.topics is None else command.topics,
        pattern=known.pattern if command.pattern is None else command.pattern,
        rebalance_timeout_ms=(
            known.rebalance_timeout_ms if timeout_ms == NO_TIMEOUT else timeout_ms
        ),
        assignor=known.assignor if command.assignor is None else command.assignor,
        classic=None,
    )


def _wrong_epoch(member: ConsumerMember) -> ErrorCode:
    is_classic = member.said.classic is not None
    return ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH


def not_found(group: str, *, exists: bool) -> ApiError:
    """GROUP_ID_NOT_FOUND, for a group that is not there or of another kind."""
    why = f"Group {group} is not a consumer group." if exists else f"Group {group} not found."
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, why)


def _is_tombstone(record: ConsumerRecord) -> bool:
    match record:
        case GroupEpoch() | TargetEpoch():
            return record.epoch is None
        case MemberSaid():
            return record.said is None
        case MemberHas():
            return record.has is None
        case MemberTarget():
            return record.partitions is None
        case PatternResolved():
            return record.resolved is None
