"""The group coordinator: commands and timers in; records, responses and timers out.

A command reads the state and collects its effects in an Outcome. Only `replay` changes stored state
(assignments, offsets), at start-up and at run time alike. Waiting members are only in memory, as in
Kafka.

This module has what all types of groups share: one name space, committed offsets, deletion. Membership is
up to the protocol of each type (`group.py`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from strom.coordination.groups.classic.group import ClassicGroup
from strom.coordination.groups.classic.groups import ClassicGroupProtocol
from strom.coordination.groups.commands import (
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    GroupCommand,
    GroupOutcome,
    GroupResponse,
    Heartbeat,
    JoinGroup,
    MemberTimer,
    PartitionsResponse,
    StatusResponse,
    SyncGroup,
    Ticket,
    Timer,
)
from strom.coordination.groups.consumer.commands import ConsumerHeartbeat
from strom.coordination.groups.consumer.group import ConsumerGroup
from strom.coordination.groups.consumer.protocol import ConsumerGroupProtocol
from strom.coordination.groups.group import (
    ASSIGN_AT_ONCE,
    CoordinatorContext,
    Group,
    GroupProtocol,
    GroupType,
)
from strom.coordination.groups.group_memory import GroupMemory, bytes_of, bytes_of_pairs
from strom.coordination.groups.offsets import RECORDS_AT_ONCE
from strom.coordination.groups.pending_offsets import OpenTransaction
from strom.coordination.groups.records import (
    CommittedOffset,
    GroupRecord,
    OffsetCommitted,
    OffsetDeleted,
)
from strom.coordination.groups.share.protocol import ShareGroup, ShareGroupProtocol, ShareHeartbeat
from strom.coordination.groups.topics_image import FixedTopics, TopicsImage
from strom.model.broker_settings import BrokerSettings
from strom.model.errors import ApiError, ErrorCode
from strom.model.group_settings import GroupSettings
from strom.model.settings import MINUTE_MS
from strom.model.topics import TopicPartition
from strom.wire.kafka.schema import NO_UUID, Uuid

PROTOCOLS: tuple[type[GroupProtocol[Any]], ...] = (
    ClassicGroupProtocol,
    ConsumerGroupProtocol,
    ShareGroupProtocol,
)


class GroupCoordinator:
    """All groups of a broker, with their committed offsets."""

    def __init__(
        self,
        settings: BrokerSettings,
        topics: TopicsImage | None = None,
        settings_of: Callable[[str], GroupSettings] | None = None,
        assign_at_once: int = ASSIGN_AT_ONCE,
    ) -> None:
        self._context = CoordinatorContext(
            settings,
            FixedTopics() if topics is None else topics,
            settings_of or (lambda _: settings.group_defaults),
            GroupMemory(settings.group_max_bytes, settings.groups_max_bytes),
            assign_at_once,
        )
        self._groups = self._context.groups
        self._offsets = self._context.offsets
        protocols = [protocol(self._context) for protocol in PROTOCOLS]
        self._protocols: dict[GroupType, GroupProtocol[Any]] = {
            protocol.kind: protocol for protocol in protocols
        }
        self._by_command = {command: each for each in protocols for command in each.commands}
        self._by_record = {record: each for each in protocols for record in each.records}

    # --- queries ------------------------------------------------------------------------------

    @property
    def memory(self) -> GroupMemory:
        """What the members of all groups take, and may take."""
        return self._context.memory

    def all_groups(self) -> tuple[Group, ...]:
        """Every group that is there now, in no order."""
        return tuple(self._groups.values())

    def find(self, group: str) -> Group | None:
        return self._groups.get(group)

    def find_classic(self, group: str) -> ClassicGroup | None:
        found = self._groups.get(group)
        return found if isinstance(found, ClassicGroup) else None

    def find_share(self, group: str) -> ShareGroup | None:
        found = self._groups.get(group)
        return found if isinstance(found, ShareGroup) else None

    def find_consumer(self, group: str) -> ConsumerGroup | None:
        found = self._groups.get(group)
        return found if isinstance(found, ConsumerGroup) else None

    def check_may_fetch(self, group: str, member: str | None, epoch: int) -> None:
        """ApiError if an OffsetFetch names a member or epoch that is not current."""
        found = self._groups.get(group)
        if found is not None:
            self._protocols[found.kind].check_may_fetch(found, member, epoch)

    def committed(self, group: str) -> Mapping[TopicPartition, CommittedOffset]:
        """The committed offsets of a group; empty for an unknown group."""
        return self._offsets.of(group)

    def pending(self, group: str) -> frozenset[TopicPartition]:
        """The partitions of a group with an offset in an open transaction."""
        return self._offsets.pending(group)

    # --- commands and timers -------------------------------------------------------------------

    def handle(self, command: GroupCommand, ticket: Ticket, now_ms: int) -> GroupOutcome:
        """Handle a command; the response to the ticket is in this outcome or in a later one."""
        out = GroupOutcome(command.group)
        try:
            # Kafka still allows offset commits, and deletion, of the group with the empty name.
            if not command.group and not isinstance(command, CommitOffsets | DeleteGroup):
                raise ApiError(ErrorCode.INVALID_GROUP_ID)
            self._check_memory(command)
            self._handle(command, ticket, out, now_ms)
        except ApiError as error:
            out.respond(ticket, self.error_response(command, error.code))
        if not isinstance(
            command, Heartbeat | CommitOffsets
        ):  # frequent, and they change no member
            self._count_memory(command.group)
        return out

    def _check_memory(self, command: GroupCommand) -> None:
        """ApiError if what a member sends would exceed the memory of its group, or of all groups."""
        when_full = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # clients retry it
        match command:
            case JoinGroup():
                size = bytes_of(command.client_id) + bytes_of_pairs(command.protocols)
                size -= self._member_bytes(command.group, command.member, command.instance)
            case SyncGroup() if command.assignments:
                group = self.find_classic(command.group)
                size = bytes_of_pairs(command.assignments)
                size -= 0 if group is None else group.assigned_bytes
                when_full = ErrorCode.REBALANCE_IN_PROGRESS  # clients join again; others are fatal
            case ConsumerHeartbeat() if command.topics is not None or command.pattern is not None:
                size = bytes_of(command.pattern, *(command.topics or ()))
                size -= self._member_bytes(command.group, command.member, command.instance)
            case ShareHeartbeat() if command.topics is not None:
                size = bytes_of(*command.topics)
                size -= self._member_bytes(command.group, command.member, None)
            case _:
                return
        self._context.memory.check(command.group, size, when_full)

    def _member_bytes(self, name: str, member: str, instance: str | None) -> int:
        group = self._groups.get(name)
        return 0 if group is None else group.member_bytes(member, instance)

    def _count_memory(self, name: str) -> None:
        group = self._groups.get(name)
        self._context.memory.update(name, 0 if group is None else group.held_bytes)

    def _handle(
        self, command: GroupCommand, ticket: Ticket, out: GroupOutcome, now_ms: int
    ) -> None:
        match command:
            case CommitOffsets():
                self._commit(command, ticket, out, now_ms)
            case DeleteOffsets():
                self._delete_offsets(command, ticket, out)
            case DeleteGroup():
                self._delete_group(command, ticket, out)
            case _:
                self._by_command[type(command)].handle(command, ticket, out, now_ms)

    def error_response(self, command: GroupCommand, code: ErrorCode) -> GroupResponse:
        """The response to a command that failed."""
        match command:
            case CommitOffsets():
                partitions = {one: code for one, _ in command.offsets}
                return PartitionsResponse(code=code, partitions=partitions)
            case DeleteOffsets():
                return PartitionsResponse(code=code)
            case DeleteGroup():
                return StatusResponse(code=code)
        return self._by_command[type(command)].error_response(command, code)

    def on_timer(self, timer: Timer, now_ms: int) -> GroupOutcome:
        """Handle a timer that an earlier outcome has set."""
        out = GroupOutcome(timer.group)
        group = self._groups.get(timer.group)
        if group is not None:
            self._protocols[group.kind].on_timer(group, timer, out, now_ms)
            self._count_memory(timer.group)
        return out

    def resume(self) -> Iterator[GroupOutcome]:
        """After replay: every member gets a session timeout to send its next heartbeat."""
        for group in self._groups.values():
            out = GroupOutcome(group.id)
            self._protocols[group.kind].resume(group, out)
            yield out

    def on_refused(self, outcome: GroupOutcome) -> None:
        """The records of an outcome could not be written, so the next heartbeat decides again.

        The members that it removes are still there, and their timers with them.
        """
        group = self._groups.get(outcome.group)
        if group is None:
            return
        group.is_outdated = True
        outcome.timers = {
            timer: after_ms
            for timer, after_ms in outcome.timers.items()
            if after_ms is not None
            or not isinstance(timer, MemberTimer)
            or timer.member not in group.members
        }

    # Each of these may take long, and other commands may be handled in between: an outcome is to be
    # carried out before the next one is looked for. None is a pause without an outcome.

    def assign(self, name: str, now_ms: int) -> Iterator[GroupOutcome | None]:
        """Assign a group whose outcome needed it."""
        group = self._groups.get(name)
        if group is not None:
            yield from self._protocols[group.kind].assign(group, now_ms)

    def on_topics_changed(self, now_ms: int) -> Iterator[GroupOutcome | None]:
        """Topics were created, extended or deleted: assignments may change."""
        for protocol in self._protocols.values():
            yield from protocol.on_topics_changed(now_ms)

    def expire(self, now_ms: int) -> Iterator[GroupOutcome | None]:
        """Delete offsets past their retention, and groups that are left without offsets and members."""
        for group in list(self._groups.values()):
            if group.may_expire:
                yield from self._expire(group, now_ms)

    def delete_topic_offsets(
        self, are_gone: Callable[[str, Uuid], bool]
    ) -> Iterator[GroupOutcome | None]:
        """Delete the offsets of deleted topics: a recreated topic starts without offsets.

        No offsets of these topics are committed meanwhile, but transactions may end.
        """
        for group, gone in self._offsets.tombstones_of_topics(are_gone):
            yield GroupOutcome(group, [*gone]) if gone else None

    # --- replay --------------------------------------------------------------------------------

    def replay(self, record: GroupRecord, transaction: OpenTransaction | None = None) -> None:
        """Apply a record from the log; in a `transaction` an offset stays pending."""
        match record:
            case OffsetCommitted():
                # A consumer that only commits ("simple consumer") has a group without members.
                if record.group not in self._groups:
                    self._groups[record.group] = ClassicGroup(record.group)
                self._offsets.replay(record, transaction)
            case OffsetDeleted():
                self._offsets.replay(record)
            case _:
                self._by_record[type(record)].replay(record)
                self._count_memory(record.group)

    def end_transaction(self, transaction: OpenTransaction, *, committed: bool) -> None:
        """Apply a marker: the pending offsets of a transaction are committed or dropped."""
        self._offsets.end_transaction(transaction, committed=committed)

    # --- offsets and deletion ------------------------------------------------------------------

    def _commit(
        self, command: CommitOffsets, ticket: Ticket, out: GroupOutcome, now_ms: int
    ) -> None:
        group = self._groups.get(command.group)
        if group is not None:
            self._protocols[group.kind].check_may_commit(group, command, out, now_ms)
        elif command.generation >= 0:
            known = command.knows_missing_groups and command.producer is None
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND if known else ErrorCode.ILLEGAL_GENERATION)
        out.producer = command.producer
        codes = {}
        longest = self._context.settings.offset_metadata_max_bytes
        for partition, offset in command.offsets:
            if len(offset.metadata.encode()) > longest:
                codes[partition] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            elif self._is_of_other_topic(partition.topic, offset.topic_id):
                codes[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                codes[partition] = ErrorCode.NONE
                out.write(OffsetCommitted(command.group, partition, offset))
        out.respond(ticket, PartitionsResponse(partitions=codes))

    def _is_of_other_topic(self, name: str, topic_id: Uuid) -> bool:
        """Whether the topic was deleted, and perhaps recreated, since its id was looked up."""
        if topic_id == NO_UUID:
            return False
        found = self._context.topics.find(name)
        return found is None or found.id != topic_id

    def _delete_offsets(self, command: DeleteOffsets, ticket: Ticket, out: GroupOutcome) -> None:
        group = self._existing(command.group)
        group.check_may_delete_offsets()
        codes = {}
        for partition in command.partitions:
            if group.reads(partition.topic):
                codes[partition] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                continue
            codes[partition] = ErrorCode.NONE
            if partition in self._offsets.of(group.id):
                out.write(OffsetDeleted(group.id, partition))
        out.respond(ticket, PartitionsResponse(partitions=codes))

    def _delete_group(self, command: DeleteGroup, ticket: Ticket, out: GroupOutcome) -> None:
        group = self._existing(command.group)
        if not group.is_empty:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)
        for gone in self._offsets.tombstones(group.id):
            out.write(gone)
        self._protocols[group.kind].delete(group, out)
        out.respond(ticket, StatusResponse())

    def _existing(self, name: str) -> Group:
        group = self._groups.get(name)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
        return group

    def _expire(self, group: Group, now_ms: int) -> Iterator[GroupOutcome | None]:
        partitions = list(self._offsets.of(group.id))
        for first in range(0, max(1, len(partitions)), RECORDS_AT_ONCE):
            if self._groups.get(group.id) is not group:
                return  # deleted, or replaced by a group of another type
            some = partitions[first : first + RECORDS_AT_ONCE]
            out = self._expire_some(group, some, now_ms)
            yield out if out.records else None

    def _expire_some(
        self, group: Group, partitions: Sequence[TopicPartition], now_ms: int
    ) -> GroupOutcome:
        """Delete the expired ones of these offsets, and the group if they were its last ones."""
        out = GroupOutcome(group.id)
        gone = self._offsets.expired(
            group.id,
            partitions,
            keeps=lambda topic: not group.is_empty and group.reads(topic),
            empty_since_ms=group.since_ms if group.is_empty else -1,
            now_ms=now_ms,
            retention_ms=self._context.settings.offsets_retention_minutes * MINUTE_MS,
        )
        for record in gone:
            out.write(record)
        has_no_offsets_left = len(gone) == len(self._offsets.of(group.id))
        if group.is_empty and has_no_offsets_left and not self._offsets.pending(group.id):
            self._protocols[group.kind].delete(group, out)
        return out
