"""Members of the classic protocol inside a consumer group, while a group moves from one to the other.

They join, sync and send heartbeats as ever, and are told to join again whenever there is something for
them to give up or to get. Nobody leads: the coordinator shares out.
"""

from collections.abc import Iterable, Sequence

from strom.coordination.groups.commands import NEW_MEMBER, Heartbeat, Join, Leave, Leaver, Sync
from strom.coordination.groups.consumer.commands import ClassicJoinEnds, ClassicSyncEnds
from strom.coordination.groups.consumer.group import ConsumerGroup
from strom.coordination.groups.consumer.membership import Step
from strom.coordination.groups.consumer.values import (
    ClassicSide,
    ConsumerMember,
    MemberState,
    Partitions,
    Subscription,
    TopicIdPartition,
)
from strom.coordination.groups.outcome import Joined, Left, Synced
from strom.coordination.groups.topics_image import TopicsImage
from strom.model.errors import ApiError, ErrorCode, ProtocolError
from strom.wire.kafka.consumer_protocol import (
    ClassicAssignment,
    ClassicPartitions,
    ClassicSubscription,
    read_subscription,
    write_assignment,
)
from strom.wire.kafka.offsets_topic import version_of

CONSUMER_PROTOCOL = "consumer"


def join(step: Step, command: Join) -> Joined:
    """Take in a member of the classic protocol, or move it on; it need not wait for the others."""
    member_id = command.member or command.fresh
    step.check_room(member_id)
    _check_protocols(step.draft.group, command)
    if not command.member and command.instance is None and command.needs_known_id:
        return Joined(code=ErrorCode.MEMBER_ID_REQUIRED, member=member_id)
    subscription = _subscription(command.protocols)
    if command.member and command.instance is not None:
        before = step.member(member_id, command.instance)
    else:
        before = step.joining(member_id, command.instance, is_classic=True)
    said = Subscription(
        instance=command.instance,
        rack=subscription.rack,
        client_id=command.client_id,
        client_host=command.client_host,
        topics=frozenset(subscription.topics),
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        classic=ClassicSide(
            session_timeout_ms=command.session_timeout_ms, protocols=command.protocols
        ),
    )
    owned = ids_of(subscription.owned_partitions, step.context.topics)
    after = step.follow(before, said, owned)
    group = step.draft.group
    group.awaited.discard(after.id)
    step.out.cancel(ClassicJoinEnds(group.id, after.id))
    step.out.set_timer(ClassicSyncEnds(group.id, after.id), command.rebalance_timeout_ms)
    step.renew_session(after)
    return Joined(
        member=after.id,
        generation=after.has.epoch,
        protocol_type=CONSUMER_PROTOCOL,
        protocol=command.protocols[0][0],
    )


def sync(step: Step, command: Sync) -> Synced:
    """Tell a member its share."""
    member = _current_member(step, command)
    classic = member.said.classic
    protocol, metadata = classic.protocols[0] if classic is not None else ("", b"")
    type_differs = command.protocol_type not in (None, CONSUMER_PROTOCOL)
    if type_differs or command.protocol not in (None, protocol):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    group = step.draft.group
    if member.has.epoch < group.epoch and member.has.state is not MemberState.UNREVOKED:
        _await_join(step, member)
        return Synced(code=ErrorCode.REBALANCE_IN_PROGRESS)
    step.out.cancel(ClassicSyncEnds(group.id, member.id))
    step.renew_session(member)
    share = as_classic(member.has.assigned, step.context.topics)
    return Synced(
        protocol_type=command.protocol_type,
        protocol=command.protocol,
        assignment=write_assignment(share, version_of(metadata)),
    )


def heartbeat(step: Step, command: Heartbeat) -> ErrorCode:
    """Renew a member's session; have it join again if there is something to give up or to get."""
    member = _current_member(step, command)
    step.renew_session(member)
    group, state = step.draft.group, member.has.state
    may_get_more = state is MemberState.UNRELEASED and not _waits_for_others(group, member)
    if member.has.epoch < group.epoch or state is MemberState.UNREVOKED or may_get_more:
        _await_join(step, member)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave(step: Step, command: Leave) -> tuple[Left, list[ConsumerMember]]:
    """Who is to be taken out, and the answer; the group has not changed yet."""
    codes: list[ErrorCode] = []
    leaving: list[ConsumerMember] = []
    for leaver in command.leavers:
        try:
            leaving.append(_leaver(step, leaver))
            codes.append(ErrorCode.NONE)
        except ApiError as error:
            codes.append(error.code)
    return Left(members=tuple(codes)), leaving


def _leaver(step: Step, leaver: Leaver) -> ConsumerMember:
    owner = step.draft.group.static_member(leaver.instance) if leaver.instance else None
    if owner is not None and leaver.member == NEW_MEMBER:
        member = owner
    else:
        member = step.member(leaver.member, leaver.instance)
    if member.said.classic is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member


def _current_member(step: Step, command: Sync | Heartbeat) -> ConsumerMember:
    member = step.member(command.member, command.instance)
    if member.said.classic is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    if command.generation != member.has.epoch:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    return member


def _check_protocols(group: ConsumerGroup, command: Join) -> None:
    """A member that shares no protocol with the other classic ones would part the group at its end."""
    others = [one.said.classic for one in group.members.values() if one.said.classic is not None]
    known = [{name for name, _ in one.protocols} for one in others]
    fits = any(all(name in names for names in known) for name, _ in command.protocols)
    if command.protocol_type != CONSUMER_PROTOCOL or not fits:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _subscription(protocols: Sequence[tuple[str, bytes]]) -> ClassicSubscription:
    try:
        return read_subscription(protocols[0][1])
    except ProtocolError:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL) from None


def _await_join(step: Step, member: ConsumerMember) -> None:
    """The member has to join again within its time."""
    group = step.draft.group
    if member.id not in group.awaited:
        group.awaited.add(member.id)
        timer = ClassicJoinEnds(group.id, member.id)
        step.out.set_timer(timer, member.said.rebalance_timeout_ms)


def _waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    missing = group.target(member.id) - member.has.assigned.keys()
    return any(one in group.owners for one in missing)


def ids_of(topics: Iterable[ClassicPartitions], image: TopicsImage) -> Partitions:
    """Partitions that were named by topic names, as far as the topics exist."""
    return frozenset(
        TopicIdPartition(facts.id, index)
        for topic in topics
        if (facts := image.find(topic.topic)) is not None
        for index in topic.partitions
    )


def as_classic(partitions: Iterable[TopicIdPartition], image: TopicsImage) -> ClassicAssignment:
    """A share as classic consumers read it."""
    by_name: dict[str, list[int]] = {}
    for one in sorted(partitions):
        facts = image.find_id(one.topic_id)
        if facts is not None:
            by_name.setdefault(facts.name, []).append(one.partition)
    return ClassicAssignment(
        partitions=[
            ClassicPartitions(topic=name, partitions=indexes)
            for name, indexes in sorted(by_name.items())
        ]
    )
