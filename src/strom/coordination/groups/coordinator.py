"""The coordinator of groups: commands and timers in; records, answers and timers out.

A command looks, and collects in an Outcome what shall happen. What is written down (shares, offsets) is
changed by `replay` alone, in the same way at start-up and at run time. Who waits for whom is kept in
memory only, as Kafka does it.

Here is what all kinds of groups have: one name space, committed offsets, an end. What members say
is the affair of their group's kind (`kinds.py`).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from strom.coordination.groups.classic.group import ClassicGroup
from strom.coordination.groups.classic.groups import ClassicGroups
from strom.coordination.groups.commands import Command, Commit, DeleteGroup, DeleteOffsets
from strom.coordination.groups.consumer.group import ConsumerGroup
from strom.coordination.groups.consumer.protocol import ConsumerGroups
from strom.coordination.groups.group import CoordinatorContext, Group, GroupProtocol, GroupType
from strom.coordination.groups.outcome import (
    Answer,
    Answered,
    ForPartitions,
    Outcome,
    Ticket,
    Timer,
)
from strom.coordination.groups.pending_offsets import OpenTransaction
from strom.coordination.groups.records import (
    CommittedOffset,
    GroupRecord,
    OffsetCommitted,
    OffsetGone,
)
from strom.coordination.groups.share.group import ShareGroup
from strom.coordination.groups.share.protocol import ShareGroups
from strom.coordination.groups.topics_image import PlainTopics, TopicsImage
from strom.model.broker_settings import BrokerSettings
from strom.model.errors import ApiError, ErrorCode
from strom.model.group_settings import GroupSettings
from strom.model.settings import MINUTE_MS
from strom.model.topics import TopicPartition
from strom.wire.kafka.schema import Uuid

KINDS: tuple[type[GroupProtocol[Any]], ...] = (ClassicGroups, ConsumerGroups, ShareGroups)
"""Every kind of group that there is."""


class GroupCoordinator:
    """All groups of a broker, with their committed offsets."""

    def __init__(
        self,
        settings: BrokerSettings,
        topics: TopicsImage | None = None,
        settings_of: Callable[[str], GroupSettings] | None = None,
    ) -> None:
        self._around = CoordinatorContext(
            settings,
            PlainTopics() if topics is None else topics,
            settings_of or (lambda _: settings.group_defaults),
        )
        self._groups = self._around.groups
        self._offsets = self._around.offsets
        kinds = [rules(self._around) for rules in KINDS]
        self._kinds: dict[GroupType, GroupProtocol[Any]] = {rules.kind: rules for rules in kinds}
        self._by_command = {command: rules for rules in kinds for command in rules.commands}
        self._by_record = {record: rules for rules in kinds for record in rules.records}

    # --- looking -------------------------------------------------------------------------------

    def groups(self) -> Iterator[Group]:
        """Every group, by name."""
        for name in sorted(self._groups):
            yield self._groups[name]

    def all_groups(self) -> tuple[Group, ...]:
        """Every group that is there now, in no order."""
        return tuple(self._groups.values())

    def find(self, group: str) -> Group | None:
        """The group of that name, of whatever kind."""
        return self._groups.get(group)

    def find_classic(self, group: str) -> ClassicGroup | None:
        """The group of that name, if it is a classic one."""
        found = self._groups.get(group)
        return found if isinstance(found, ClassicGroup) else None

    def find_share(self, group: str) -> ShareGroup | None:
        """The group of that name, if it is a share group."""
        found = self._groups.get(group)
        return found if isinstance(found, ShareGroup) else None

    def find_consumer(self, group: str) -> ConsumerGroup | None:
        """The group of that name, if it is a consumer group."""
        found = self._groups.get(group)
        return found if isinstance(found, ConsumerGroup) else None

    def check_may_fetch(self, group: str, member: str | None, epoch: int) -> None:
        """Refuse (by an ApiError) to tell offsets to whoever wrongly takes itself for a member."""
        found = self._groups.get(group)
        if found is not None:
            self._kinds[found.kind].check_may_fetch(found, member, epoch)

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
            out.answer(ticket, self.refusal(command, error.code))
        return out

    def _handle(self, command: Command, ticket: Ticket, out: Outcome, now_ms: int) -> None:
        match command:
            case Commit():
                self._commit(command, ticket, out, now_ms)
            case DeleteOffsets():
                self._delete_offsets(command, ticket, out)
            case DeleteGroup():
                self._delete_group(command, ticket, out)
            case _:
                self._by_command[type(command)].handle(command, ticket, out, now_ms)

    def refusal(self, command: Command, code: ErrorCode) -> Answer:
        """What a command is answered with when nothing was done."""
        match command:
            case Commit():
                partitions = {one: code for one, _ in command.offsets}
                return ForPartitions(code=code, partitions=partitions)
            case DeleteOffsets():
                return ForPartitions(code=code)
            case DeleteGroup():
                return Answered(code=code)
        return self._by_command[type(command)].refusal(command, code)

    def timer_fired(self, timer: Timer, now_ms: int) -> Outcome:
        """The time that an earlier outcome has set is there."""
        out = Outcome(timer.group)
        group = self._groups.get(timer.group)
        if group is not None:
            self._kinds[group.kind].timer_fired(group, timer, out, now_ms)
        return out

    def resume(self) -> Iterator[Outcome]:
        """After the log was replayed: everyone gets time to show up again."""
        for group in self._groups.values():
            out = Outcome(group.id)
            self._kinds[group.kind].resume(group, out)
            yield out

    def topics_changed(self, now_ms: int) -> Iterator[Outcome]:
        """Topics have come, grown or gone: whoever reads them may get another share."""
        for rules in self._kinds.values():
            yield from rules.topics_changed(now_ms)

    def expire(self, now_ms: int) -> list[Outcome]:
        """Forget offsets that were not needed for too long, and groups that are left with nothing."""
        return [
            outcome
            for group in list(self._groups.values())
            if group.may_expire
            if (outcome := self._expire(group, now_ms)).records
        ]

    def forget_topics(self, are_gone: Callable[[str, Uuid], bool]) -> list[Outcome]:
        """Topics were deleted: nobody has read anything of those that may come in their places."""
        return [Outcome(group, [*gone]) for group, gone in self._offsets.of_topics_that(are_gone)]

    # --- the only mutator of what is written ---------------------------------------------------

    def replay(self, record: GroupRecord, transaction: OpenTransaction | None = None) -> None:
        """Take a record that is in the log into the state; `transaction` is whose part it is."""
        match record:
            case OffsetCommitted():
                # Whoever only commits has a group too, with no members.
                if record.group not in self._groups:
                    self._groups[record.group] = ClassicGroup(record.group)
                self._offsets.replay(record, transaction)
            case OffsetGone():
                self._offsets.replay(record)
            case _:
                self._by_record[type(record)].replay(record)

    def end_transaction(self, transaction: OpenTransaction, *, committed: bool) -> None:
        """A marker is in the log: the offsets of a transaction count from now on, or never will."""
        self._offsets.end_transaction(transaction, committed=committed)

    # --- inside --------------------------------------------------------------------------------

    def _commit(self, command: Commit, ticket: Ticket, out: Outcome, now_ms: int) -> None:
        group = self._groups.get(command.group)
        if group is not None:
            self._kinds[group.kind].check_may_commit(group, command, out, now_ms)
        elif command.generation >= 0:
            known = command.knows_missing_groups and command.producer is None
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND if known else ErrorCode.ILLEGAL_GENERATION)
        out.producer = command.producer
        codes = {}
        longest = self._around.settings.offset_metadata_max_bytes
        for partition, offset in command.offsets:
            if len(offset.metadata.encode()) > longest:
                codes[partition] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                codes[partition] = ErrorCode.NONE
                out.write(OffsetCommitted(command.group, partition, offset))
        out.answer(ticket, ForPartitions(partitions=codes))

    def _delete_offsets(self, command: DeleteOffsets, ticket: Ticket, out: Outcome) -> None:
        group = self._existing(command.group)
        group.check_may_delete_offsets()
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
        group = self._existing(command.group)
        if not group.is_empty:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)
        for gone in self._offsets.all_gone(group.id):
            out.write(gone)
        self._kinds[group.kind].forget(group, out)
        out.answer(ticket, Answered())

    def _existing(self, name: str) -> Group:
        group = self._groups.get(name)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
        return group

    def _expire(self, group: Group, now_ms: int) -> Outcome:
        out = Outcome(group.id)
        gone = self._offsets.expired(
            group.id,
            keeps=lambda topic: not group.is_empty and group.reads(topic),
            empty_since_ms=group.since_ms if group.is_empty else -1,
            now_ms=now_ms,
            retention_ms=self._around.settings.offsets_retention_minutes * MINUTE_MS,
        )
        for record in gone:
            out.write(record)
        is_left_with_nothing = len(gone) == len(self._offsets.of(group.id))
        if group.is_empty and is_left_with_nothing and not self._offsets.pending(group.id):
            self._kinds[group.kind].forget(group, out)
        return out
