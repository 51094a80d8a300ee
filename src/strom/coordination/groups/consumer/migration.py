"""Online migration between the classic and the consumer protocol (KIP-848).

Upgrade: a consumer-protocol member joins a classic group. The classic members keep their assignments,
and are served by `classic_members.py`. Downgrade: the last consumer-protocol member leaves, and classic
members remain. They become a classic group again, and rebalance.
"""

from strom.coordination.groups.classic.group import CONSUMER_PROTOCOL, ClassicGroup, ClassicMember
from strom.coordination.groups.commands import (
    GroupOutcome,
    JoinResponse,
    JoinTimeout,
    SessionTimeout,
    SyncResponse,
    SyncTimeout,
)
from strom.coordination.groups.consumer.classic_members import as_classic, ids_of
from strom.coordination.groups.consumer.commands import (
    ClassicJoinTimeout,
    ClassicSyncTimeout,
    Downgraded,
)
from strom.coordination.groups.consumer.group import ConsumerGroup
from strom.coordination.groups.consumer.membership import tombstones
from strom.coordination.groups.consumer.records import (
    ClassicMetadata,
    ConsumerRecord,
    CurrentAssignment,
    GroupEpoch,
    MemberCurrent,
    MemberSubscription,
    MemberTarget,
    Subscription,
    TargetEpoch,
    TopicIdPartition,
)
from strom.coordination.groups.group import CoordinatorContext
from strom.coordination.groups.records import GroupDeleted
from strom.coordination.groups.topics_image import TopicsImage
from strom.model.errors import ApiError, ErrorCode, ProtocolError
from strom.wire.kafka.consumer_protocol import (
    read_assignment,
    read_subscription,
    write_assignment,
)
from strom.wire.kafka.offsets_topic import version_of

UPGRADING = ("bidirectional", "upgrade")
DOWNGRADING = ("bidirectional", "downgrade")


def check_may_upgrade(group: ClassicGroup, context: CoordinatorContext) -> None:
    """GROUP_ID_NOT_FOUND, with the reason, unless the group can become a consumer group."""
    settings = context.settings
    reason = ""
    if settings.group_consumer_migration_policy not in UPGRADING:
        reason = "online upgrade is disabled"
    elif group.protocol_type != CONSUMER_PROTOCOL:
        reason = "the group does not use the consumer embedded protocol"
    elif len(group.members) > settings.group_consumer_max_size:
        reason = "the group size exceeds the consumer group maximum size"
    if reason:
        raise ApiError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Cannot upgrade classic group {group.id} to consumer group because {reason}.",
        )


def upgrade(group: ClassicGroup, topics: TopicsImage, out: GroupOutcome) -> ConsumerGroup:
    """Convert a classic group to a consumer group; members keep their assignments."""
    out.write(GroupDeleted(group.id))
    upgraded = ConsumerGroup(group.id)
    for record in _records_of(group, topics):
        upgraded.apply(record)
        out.write(record)
    return upgraded


def _records_of(group: ClassicGroup, topics: TopicsImage) -> list[ConsumerRecord]:
    protocol = group.protocol or group.choose_protocol()
    records: list[ConsumerRecord] = [GroupEpoch(group.id, group.generation)]
    taken: set[TopicIdPartition] = set()
    try:
        for member in group.members.values():
            subscription = _subscription(member, protocol)
            assigned = ids_of(read_assignment(member.assignment).partitions, topics) - taken
            taken |= assigned
            current = CurrentAssignment(
                epoch=group.generation,
                previous_epoch=group.generation,
                assigned=dict.fromkeys(assigned, group.generation),
            )
            records += [
                MemberSubscription(group.id, member.id, subscription),
                MemberTarget(group.id, member.id, assigned),
                MemberCurrent(group.id, member.id, current),
            ]
    except ProtocolError:
        raise ApiError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Cannot upgrade the classic group {group.id} to consumer group because the embedded "
            "consumer protocol is malformed.",
        ) from None
    return [*records, TargetEpoch(group.id, group.generation)]


def _subscription(member: ClassicMember, protocol: str) -> Subscription:
    subscription = read_subscription(member.subscription(protocol))
    # The chosen protocol comes first: its version determines that of the assignment.
    others = tuple(one for one in member.protocols if one[0] != protocol)
    return Subscription(
        instance=member.instance,
        rack=subscription.rack,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMetadata(
            session_timeout_ms=member.session_timeout_ms,
            protocols=((protocol, member.subscription(protocol)), *others),
        ),
    )


def end_classic_waits(group: ClassicGroup, out: GroupOutcome) -> None:
    """After the upgrade: waiting joins and syncs get REBALANCE_IN_PROGRESS."""
    out.cancel(JoinTimeout(group.id))
    out.cancel(SyncTimeout(group.id))
    for pending in group.pending:
        out.cancel(SessionTimeout(group.id, pending))
    again = ErrorCode.REBALANCE_IN_PROGRESS
    for member in group.members.values():
        out.set_timer(SessionTimeout(group.id, member.id), member.session_timeout_ms)
        if member.awaiting_join is not None:
            out.respond(member.awaiting_join, JoinResponse(code=again, member=member.id))
        if member.awaiting_sync is not None:
            out.respond(member.awaiting_sync, SyncResponse(code=again))


def may_downgrade(group: ConsumerGroup, context: CoordinatorContext) -> bool:
    """Whether only classic members are left, and the policy allows a downgrade."""
    settings = context.settings
    return (
        bool(group.members)
        and all(member.subscription.classic is not None for member in group.members.values())
        and settings.group_consumer_migration_policy in DOWNGRADING
        and len(group.members) <= settings.group_max_size
    )


def downgrade(
    before: ConsumerGroup, after: ConsumerGroup, topics: TopicsImage, out: GroupOutcome, now_ms: int
) -> int:
    """Replace the consumer group by a classic one with the remaining members, and rebalance it.

    Returns the generation; the rebalance begins the next.
    """
    classic = ClassicGroup(after.id)
    classic.generation = before.epoch
    for member in after.members.values():
        side = member.subscription.classic
        assert side is not None  # noqa: S101 - see may_downgrade
        version = version_of(side.protocols[0][1])
        # The current, not the target assignment: the group may be upgraded again before it syncs.
        holds = {**member.current.assigned, **member.current.revoking}
        assignment = write_assignment(as_classic(holds, topics), version)
        classic.add(
            ClassicMember(
                member.id,
                member.subscription.instance,
                member.subscription.client_id,
                member.subscription.client_host,
                member.subscription.rebalance_timeout_ms,
                side.session_timeout_ms,
                side.protocols,
                assignment=assignment,
            ),
            CONSUMER_PROTOCOL,
        )
        out.set_timer(SessionTimeout(after.id, member.id), side.session_timeout_ms)
        out.cancel(ClassicJoinTimeout(after.id, member.id))
        out.cancel(ClassicSyncTimeout(after.id, member.id))
    classic.protocol = classic.choose_protocol()
    assignments = {member.id: member.assignment for member in classic.members.values()}
    for record in tombstones(before):
        out.write(record)
    out.write(classic.as_record(assignments, now_ms))
    out.set_timer(Downgraded(after.id), 0)
    return classic.generation
