"""The consumer group protocol (KIP-848): heartbeats in; assignments out."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from strom.coordination.groups.classic.group import ClassicGroup
from strom.coordination.groups.commands import (
    CommitOffsets,
    GroupCommand,
    GroupOutcome,
    GroupResponse,
    Heartbeat,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    MemberTimer,
    StatusResponse,
    SyncGroup,
    Ticket,
    Timer,
)
from strom.coordination.groups.consumer import classic_members
from strom.coordination.groups.consumer.commands import (
    NO_TIMEOUT,
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
    RevocationTimeout,
)
from strom.coordination.groups.consumer.group import ConsumerGroup, GroupDraft
from strom.coordination.groups.consumer.membership import MembershipUpdate, check_epoch, tombstones
from strom.coordination.groups.consumer.migration import (
    check_may_upgrade,
    downgrade,
    end_classic_waits,
    may_downgrade,
    upgrade,
)
from strom.coordination.groups.consumer.records import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    RECORDS,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    ConsumerRecord,
    GroupEpoch,
    MemberState,
    Subscription,
    TopicIdPartition,
    is_tombstone,
)
from strom.coordination.groups.consumer.requests import check_request
from strom.coordination.groups.consumer.target import compute_target, write_target
from strom.coordination.groups.group import GroupProtocol, GroupType
from strom.coordination.groups.records import GroupDeleted
from strom.model.errors import ApiError, ErrorCode


class ConsumerGroupProtocol(GroupProtocol[ConsumerGroup]):
    kind = GroupType.CONSUMER
    commands: ClassVar[tuple[type[GroupCommand], ...]] = (ConsumerHeartbeat,)
    records = RECORDS

    # --- heartbeats ----------------------------------------------------------------------------

    def handle(
        self, command: ConsumerHeartbeat, ticket: Ticket, out: GroupOutcome, now_ms: int
    ) -> None:
        """Handle a heartbeat; the response never waits for other members."""
        try:
            check_request(command, self.context.settings.group_consumer_assignors)
            if command.epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
                response = self._leave(command, out, now_ms)
            else:
                response = self._heartbeat(command, out, now_ms)
        except ApiError as error:
            out.discard()
            response = ConsumerHeartbeatResponse(code=error.code, message=error.message)
        out.respond(ticket, response)

    def error_response(self, command: ConsumerHeartbeat, code: ErrorCode) -> GroupResponse:
        if code is ErrorCode.INVALID_GROUP_ID:
            code = ErrorCode.INVALID_REQUEST
        return ConsumerHeartbeatResponse(code=code, message=code.text)

    def _heartbeat(
        self, command: ConsumerHeartbeat, out: GroupOutcome, now_ms: int
    ) -> ConsumerHeartbeatResponse:
        is_join = command.epoch == JOIN_EPOCH
        step = MembershipUpdate(self.context, self._group_for(command, out), out, now_ms)
        step.check_room(command.member)
        member_id = command.member or command.fresh
        if is_join:
            before = step.joining(member_id, command.instance, is_classic=False)
        else:
            before = step.member(member_id, command.instance)
            check_epoch(before, command)
        after = step.follow(
            before, _update_subscription(before.subscription, command), command.owned
        )
        step.renew_session(after)
        is_full_request = command.rebalance_timeout_ms != NO_TIMEOUT and command.owned is not None
        is_full_request = is_full_request and (
            command.topics is not None or command.pattern is not None
        )
        sends_assignment = (
            is_join
            or is_full_request
            or after.current.assigned.keys() != before.current.assigned.keys()
        )
        former = self.context.groups.get(command.group)
        if isinstance(former, ClassicGroup):
            end_classic_waits(former, out)
        return ConsumerHeartbeatResponse(
            member=member_id,
            epoch=after.current.epoch,
            interval_ms=self.context.settings_of(command.group).consumer_heartbeat_interval_ms,
            assignment=frozenset(after.current.assigned) if sends_assignment else None,
        )

    def _group_for(self, command: ConsumerHeartbeat, out: GroupOutcome) -> ConsumerGroup:
        """The group of a heartbeat; a join creates it, or upgrades a classic one."""
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
            out.write(GroupDeleted(command.group))
            return ConsumerGroup(command.group)
        check_may_upgrade(found, self.context)
        return upgrade(found, self.context.topics, out)

    def _leave(
        self, command: ConsumerHeartbeat, out: GroupOutcome, now_ms: int
    ) -> ConsumerHeartbeatResponse:
        group = self.find(command.group)
        if group is None:
            raise not_found(command.group, exists=command.group in self.context.groups)
        step = MembershipUpdate(self.context, group, out, now_ms)
        member = step.member(command.member, command.instance)
        if command.epoch == STATIC_LEAVE_EPOCH:
            step.leave_temporarily(member)
        else:
            self._remove_members(group, [member], out, now_ms)
        return ConsumerHeartbeatResponse(member=member.id, epoch=command.epoch)

    def _remove_members(
        self,
        group: ConsumerGroup,
        members: Sequence[ConsumerMember],
        out: GroupOutcome,
        now_ms: int,
    ) -> None:
        """Remove members; if only classic ones are left, downgrade the group."""
        step = MembershipUpdate(self.context, group, out, now_ms)
        step.remove_members([member.id for member in members])
        was_mixed = any(member.subscription.classic is None for member in members)
        if was_mixed and may_downgrade(step.draft.group, self.context):
            out.records.clear()
            downgrade(group, step.draft.group, self.context.topics, out, now_ms)

    # --- classic members of a consumer group ---------------------------------------------------

    def serve_classic(
        self,
        group: ConsumerGroup,
        command: JoinGroup | SyncGroup | Heartbeat | LeaveGroup,
        out: GroupOutcome,
        now_ms: int,
    ) -> GroupResponse:
        """Handle a command of a classic member in a consumer group."""
        step = MembershipUpdate(self.context, group, out, now_ms)
        match command:
            case JoinGroup():
                return self._join(group, step, command)
            case SyncGroup():
                return classic_members.sync(step, command)
            case Heartbeat():
                return StatusResponse(code=classic_members.heartbeat(step, command))
            case LeaveGroup():
                left, members = classic_members.leave(step, command)
                if members:
                    self._remove_members(group, members, out, now_ms)
                return left

    def _join(
        self, group: ConsumerGroup, step: MembershipUpdate, command: JoinGroup
    ) -> JoinResponse:
        if self.context.settings.group_consumer_migration_policy == "disabled":
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        replaced = group.static_member(command.instance) if command.instance else None
        joined = classic_members.join(step, command)
        is_last = replaced is not None and replaced.subscription.classic is None
        if is_last and may_downgrade(step.draft.group, self.context):
            after, out = step.draft.group, step.out
            out.discard()
            generation = downgrade(group, after, self.context.topics, out, step.now_ms)
            return replace(joined, generation=generation)
        return joined

    # --- timers, replay, topics ----------------------------------------------------------------

    def on_timer(self, group: ConsumerGroup, timer: Timer, out: GroupOutcome, now_ms: int) -> None:
        member = group.members.get(timer.member) if isinstance(timer, MemberTimer) else None
        if member is None:
            return
        has_revoked = member.current.state is not MemberState.UNREVOKED
        if not (isinstance(timer, RevocationTimeout) and has_revoked):
            self._remove_members(group, [member], out, now_ms)

    def replay(self, record: ConsumerRecord) -> None:
        groups = self.context.groups
        group = self.find(record.group)
        if isinstance(record, GroupEpoch) and record.epoch is None:
            if group is not None:
                del groups[record.group]
            return
        if group is None:
            if is_tombstone(record):
                return
            # A previous group was deleted by a tombstone, or held only offsets.
            group = groups[record.group] = ConsumerGroup(record.group)
        group.apply(record)

    def resume(self, group: ConsumerGroup, out: GroupOutcome) -> None:
        """Restart session timeouts, and rebalance timeouts of members that must revoke partitions."""
        step = MembershipUpdate(self.context, group, out, 0)
        for member in group.members.values():
            step.renew_session(member)
            if (
                member.current.state is MemberState.UNREVOKED
                and member.subscription.classic is None
            ):
                timer = RevocationTimeout(group.id, member.id)
                out.set_timer(timer, member.subscription.rebalance_timeout_ms)

    def delete(self, group: ConsumerGroup, out: GroupOutcome) -> None:
        for record in tombstones(group):
            out.write(record)

    def assign(self, group: ConsumerGroup, now_ms: int) -> Iterator[GroupOutcome | None]:
        default = self.context.settings.group_consumer_assignors[0]
        target = yield from compute_target(group.copy(), self.context.topics, default)
        if self.find(group.id) is group and target.fits(group):
            out = GroupOutcome(group.id)
            write_target(GroupDraft(group, out), target, now_ms)
            yield out

    def on_topics_changed(self, now_ms: int) -> Iterable[GroupOutcome | None]:
        """Every group checks its topics with the next heartbeat."""
        for group in list(self.context.groups.values()):
            if isinstance(group, ConsumerGroup):
                group.is_outdated = True
            yield None

    # --- offsets -------------------------------------------------------------------------------

    def check_may_commit(
        self, group: ConsumerGroup, command: CommitOffsets, out: GroupOutcome, now_ms: int
    ) -> None:
        """Members may commit for partitions owned since their epoch; any client if the group is empty."""
        if command.generation < 0 and group.is_empty:
            return
        has_no_member = not command.member and command.instance is None
        if command.producer is not None and command.generation < 0 and has_no_member:
            return  # TxnOffsetCommit before KIP-447 names no member
        member = group.members.get(command.member)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        is_unsupported = command.producer is None and not command.knows_missing_groups
        if member.subscription.classic is None and is_unsupported:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        if command.generation > member.current.epoch:
            raise ApiError(_wrong_epoch(member))
        if command.generation < member.current.epoch and not self._owned_all(member, command):
            raise ApiError(_wrong_epoch(member))

    def _owned_all(self, member: ConsumerMember, command: CommitOffsets) -> bool:
        """Whether the member has owned every partition since its epoch or before (KIP-1251)."""
        for partition, _ in command.offsets:
            topic = self.context.topics.find(partition.topic)
            if topic is None:
                return False
            one = TopicIdPartition(topic.id, partition.partition)
            since = member.current.assigned.get(one, member.current.revoking.get(one))
            if since is None or command.generation < since:
                return False
        return True

    def check_may_fetch(self, group: ConsumerGroup, member_id: str | None, epoch: int) -> None:
        """Members may fetch with their current epoch, and clients that name no member."""
        if member_id is None and epoch < 0:
            return
        member = group.members.get(member_id or "")
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        if epoch != member.current.epoch:
            raise ApiError(_wrong_epoch(member))


def _update_subscription(known: Subscription, command: ConsumerHeartbeat) -> Subscription:
    """A member's subscription, updated by a heartbeat."""
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
    is_classic = member.subscription.classic is not None
    return ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH


def not_found(group: str, *, exists: bool) -> ApiError:
    """GROUP_ID_NOT_FOUND, for a group that does not exist or has another type."""
    why = f"Group {group} is not a consumer group." if exists else f"Group {group} not found."
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, why)
