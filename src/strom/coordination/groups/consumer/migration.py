"""How a group with members moves between the protocols.

Up: a member of the new protocol joins a classic group. Its members keep what they have, and are served
as before (`classic_members.py`). Down: the last member of the new protocol is gone, and there are classic
ones. They become a classic group again, and share out anew.
"""

from strom.coordination.groups.classic.group import CONSUMER_PROTOCOL, ClassicGroup, Member
from strom.coordination.groups.consumer.classic_members import as_classic, ids_of
from strom.coordination.groups.consumer.commands import ClassicJoinEnds, ClassicSyncEnds, Downgraded
from strom.coordination.groups.consumer.group import ConsumerGroup
from strom.coordination.groups.consumer.membership import tombstones
from strom.coordination.groups.consumer.records import (
    ConsumerRecord,
    GroupEpoch,
    MemberHas,
    MemberSaid,
    MemberTarget,
    TargetEpoch,
)
from strom.coordination.groups.consumer.values import (
    ClassicSide,
    Standing,
    Subscription,
    TopicIdPartition,
)
from strom.coordination.groups.group import CoordinatorContext
from strom.coordination.groups.outcome import (
    Joined,
    JoinEnds,
    Outcome,
    SessionEnds,
    Synced,
    SyncEnds,
)
from strom.coordination.groups.records import GroupGone
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


def upgrade(group: ClassicGroup, topics: TopicsImage, out: Outcome) -> ConsumerGroup:
    """The classic group as a consumer group; everyone keeps what it has."""
    out.write(GroupGone(group.id))
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
            said = _subscription(member, protocol)
            assigned = ids_of(read_assignment(member.assignment).partitions, topics) - taken
            taken |= assigned
            has = Standing(
                epoch=group.generation,
                previous_epoch=group.generation,
                assigned=dict.fromkeys(assigned, group.generation),
            )
            records += [
                MemberSaid(group.id, member.id, said),
                MemberTarget(group.id, member.id, assigned),
                MemberHas(group.id, member.id, has),
            ]
    except ProtocolError:
        raise ApiError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Cannot upgrade the classic group {group.id} to consumer group because the embedded "
            "consumer protocol is malformed.",
        ) from None
    return [*records, TargetEpoch(group.id, group.generation)]


def _subscription(member: Member, protocol: str) -> Subscription:
    subscription = read_subscription(member.subscription(protocol))
    # What it said last for this protocol comes first: its share is written as that says.
    others = tuple(one for one in member.protocols if one[0] != protocol)
    return Subscription(
        instance=member.instance,
        rack=subscription.rack,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicSide(
            session_timeout_ms=member.session_timeout_ms,
            protocols=((protocol, member.subscription(protocol)), *others),
        ),
    )


def leave_classic_life(group: ClassicGroup, out: Outcome) -> None:
    """Once the upgrade is sure: whoever waits for the others is told to join again."""
    out.cancel(JoinEnds(group.id))
    out.cancel(SyncEnds(group.id))
    for pending in group.pending:
        out.cancel(SessionEnds(group.id, pending))
    again = ErrorCode.REBALANCE_IN_PROGRESS
    for member in group.members.values():
        out.set_timer(SessionEnds(group.id, member.id), member.session_timeout_ms)
        if member.awaiting_join is not None:
            out.answer(member.awaiting_join, Joined(code=again, member=member.id))
        if member.awaiting_sync is not None:
            out.answer(member.awaiting_sync, Synced(code=again))


def may_downgrade(group: ConsumerGroup, context: CoordinatorContext) -> bool:
    """Whether only classic members are left, and they may be a classic group again."""
    settings = context.settings
    return (
        bool(group.members)
        and all(member.said.classic is not None for member in group.members.values())
        and settings.group_consumer_migration_policy in DOWNGRADING
        and len(group.members) <= settings.group_max_size
    )


def downgrade(
    before: ConsumerGroup, after: ConsumerGroup, topics: TopicsImage, out: Outcome, now_ms: int
) -> int:
    """End the consumer group as it was, begin a classic one with whom it has left, and rebalance it.

    Returns the generation; the rebalance makes the next.
    """
    classic = ClassicGroup(after.id)
    classic.generation = before.epoch
    for member in after.members.values():
        side = member.said.classic
        assert side is not None  # noqa: S101 - see may_downgrade
        version = version_of(side.protocols[0][1])
        # What it has, not what it shall have: the group may move up again before it hears of this.
        holds = {**member.has.assigned, **member.has.revoking}
        share = write_assignment(as_classic(holds, topics), version)
        classic.add(
            Member(
                member.id,
                member.said.instance,
                member.said.client_id,
                member.said.client_host,
                member.said.rebalance_timeout_ms,
                side.session_timeout_ms,
                side.protocols,
                assignment=share,
            ),
            CONSUMER_PROTOCOL,
        )
        out.set_timer(SessionEnds(after.id, member.id), side.session_timeout_ms)
        out.cancel(ClassicJoinEnds(after.id, member.id))
        out.cancel(ClassicSyncEnds(after.id, member.id))
    classic.protocol = classic.choose_protocol()
    shares = {member.id: member.assignment for member in classic.members.values()}
    for record in tombstones(before):
        out.write(record)
    out.write(classic.as_record(shares, now_ms))
    out.set_timer(Downgraded(after.id), 0)
    return classic.generation
