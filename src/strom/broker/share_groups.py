"""Share groups: their partitions, sessions and stored state.

Acknowledgements are written to `__share_group_state`, and the response is sent when they are durable.
So an accepted record is never redelivered, not even after a crash; one without acknowledgement is.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple, TypeAlias

from strom.broker.broker import Broker
from strom.broker.groups import Groups
from strom.broker.partition import Partition
from strom.broker.share_context import SharePartitionContext
from strom.broker.share_sessions import ShareSession, ShareSessions, TopicIdPartition
from strom.broker.shared_partition import SharedPartition
from strom.broker.turns import in_turns
from strom.coordination.groups.share.partitions.records import ShareKey, ShareStateDeleted
from strom.coordination.groups.share.partitions.share_partition import NOT_BEGUN
from strom.coordination.groups.share.partitions.share_states import SharedState, ShareStates
from strom.model.errors import ApiError, ErrorCode
from strom.model.topics import SHARE_STATE_TOPIC
from strom.wire.kafka.schema import Uuid

log = logging.getLogger(__name__)

LONG_FROM_RECORDS = 20_000
"""A state log with more records is pruned early; each share partition needs a few in any case."""
COLD_AFTER_RECORDS = 1000
"""A snapshot this many records back is written again, so that the log before it can be deleted."""


Pause: TypeAlias = Callable[[], Awaitable[None]]
"""Lets the event loop do other work when it is time."""


class SharePosition(NamedTuple):
    """The position of a group in a partition."""

    start_offset: int
    leader_epoch: int
    lag: int
    """How many records are not final."""


class ShareGroups:
    """All share groups of this broker."""

    def __init__(self, broker: Broker, groups: Groups) -> None:
        self.context = SharePartitionContext(broker)
        self.state_log = self.context.state_log
        self.sessions = ShareSessions(broker.settings.group_share_max_share_sessions)
        self._broker = broker
        self._groups = groups
        self._states = ShareStates()
        self._partitions: dict[ShareKey, SharedPartition] = {}
        self._administered: set[str] = set()
        broker.on_topic_deleted.append(self._on_topic_deleted)
        broker.after_topic_deleted.append(self._forget_topic)

    # --- lifecycle -----------------------------------------------------------------------------

    def load(self) -> None:
        """Restore all share partitions from the log."""
        for record, offset in self.state_log.read():
            self._states.replay(record, offset)
        for shared in self._states:
            source = self._find_source(shared.key)
            if source is not None:
                self._partitions[shared.key] = SharedPartition(self.context, shared, source)
        deque(self._forget_lost_topics(), maxlen=0)  # a crash may have interrupted their deletion

    def stop(self) -> None:
        """Stop: locks and dead letters are left to the next start."""
        self.context.stop()
        for shared in self._partitions.values():
            shared.close()

    # --- partitions ----------------------------------------------------------------------------

    def partition(self, group: str, topic_id: Uuid, index: int) -> SharedPartition:
        """A share partition; UNKNOWN_TOPIC_OR_PARTITION if the group has no such topic."""
        key = ShareKey(group, topic_id, index)
        found = self._partitions.get(key)
        if found is not None:
            return found
        source = self._broker.topic_by_id(topic_id).partition(index)
        known = self._groups.look().find_share(group)
        if known is None or topic_id not in known.known_topics:
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"The share group {group} does not have this partition.",
            )
        self.state_log.partition_of(key)
        return self._make(key, source)

    def _make(self, key: ShareKey, source: Partition) -> SharedPartition:
        shared = SharedPartition(self.context, self._states.get_or_create(key), source)
        self._partitions[key] = shared
        return shared

    def find(self, group: str, topic_id: Uuid, index: int) -> SharedPartition | None:
        """A share partition, None if the group has not started in it."""
        return self._partitions.get(ShareKey(group, topic_id, index))

    def _find_source(self, key: ShareKey) -> Partition | None:
        try:
            return self._broker.topic_by_id(key.topic_id).partition(key.partition)
        except ApiError:
            return None

    # --- sessions ------------------------------------------------------------------------------

    def session_ended(self, session: ShareSession) -> None:
        """Release the records that the member has not acknowledged."""
        newer = self.sessions.find(session.key)
        if newer is not None and newer is not session:
            newer.touched.update(session.touched)  # it may have acquired records in the same ones
            return
        for partition in session.touched:
            shared = self._partitions.get(ShareKey(session.key.group, *partition))
            if shared is not None and not shared.source.deleted:
                shared.release(session.key.member)

    def connection_lost(self, session: ShareSession) -> None:
        if self.sessions.drop(session):
            self.session_ended(session)

    def all_partitions(self) -> tuple[SharedPartition, ...]:
        """Every partition that a share group has begun to read, in no order."""
        return tuple(self._partitions.values())

    # --- administration ------------------------------------------------------------------------

    @contextmanager
    def administering(self, group: str) -> Iterator[None]:
        """Change what is stored of a group without members, in several turns: none may join meanwhile.

        COORDINATOR_LOAD_IN_PROGRESS, which clients retry, if that is already done for another client.
        """
        self.check_not_administered(group)
        self._administered.add(group)
        try:
            yield
        finally:
            self._administered.discard(group)

    def check_not_administered(self, group: str) -> None:
        if group in self._administered:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    async def places(
        self, group: str, partitions: Iterable[TopicIdPartition]
    ) -> dict[TopicIdPartition, SharePosition]:
        """The positions of a group in the partitions that it has started, when they are durable."""
        found = {}
        for partition in partitions:
            shared = self._partitions.get(ShareKey(group, *partition))
            if shared is not None and shared.shared.partition.start_offset != NOT_BEGUN:
                found[partition] = _place(shared)
        await self.state_log.wait_until_durable(ShareKey(group, *partition) for partition in found)
        return found

    async def move(self, group: str, offsets: Mapping[TopicIdPartition, int], pause: Pause) -> None:
        """Reset the start offsets of a group, durably."""
        for (topic_id, index), offset in offsets.items():
            await pause()
            source = self._broker.topic_by_id(topic_id).partition(index)
            key = ShareKey(group, topic_id, index)
            shared = self._partitions.get(key) or self._make(key, source)
            shared.shared.reset(offset)
            shared.append_snapshot()
            shared.wake()
        await self.state_log.wait_until_durable(
            ShareKey(group, *partition) for partition in offsets
        )

    async def forget(
        self, group: str, pause: Pause, topic_ids: Iterable[Uuid] | None = None
    ) -> None:
        """Delete the state of a group, in some topics or in all, durably."""
        gone = None if topic_ids is None else set(topic_ids)
        keys = [
            shared.key
            for shared in self._states
            if shared.key.group == group and (gone is None or shared.key.topic_id in gone)
        ]
        for key in keys:
            await pause()
            if self._states.find(key) is not None:  # its topic may have been deleted meanwhile
                self._forget(key)
        await self.state_log.wait_until_durable(keys)

    def _forget(self, key: ShareKey) -> None:
        self.state_log.append(key, ShareStateDeleted(key))
        self._states.forget(key)
        self.state_log.forget_partition(key)
        shared = self._partitions.pop(key, None)
        if shared is not None:
            shared.close()

    # --- deleted topics ------------------------------------------------------------------------

    def _on_topic_deleted(self, topic: str) -> None:
        if topic == SHARE_STATE_TOPIC:
            for shared in self._partitions.values():
                shared.close()
            self._partitions.clear()
            self._states = ShareStates()
            self.state_log.forget()

    async def _forget_topic(self, _: str) -> None:
        await in_turns(self._forget_lost_topics())

    def _forget_lost_topics(self) -> Iterator[None]:
        for shared in list(self._states):
            yield None
            is_current = self._states.find(shared.key) is shared  # also after a turn
            if is_current and self._find_source(shared.key) is None:
                try:
                    self._forget(shared.key)
                except ApiError as error:
                    log.warning(
                        "The state of group %s in a deleted topic is kept: %s",
                        shared.key.group,
                        error,
                    )

    # --- housekeeping --------------------------------------------------------------------------

    async def prune(self) -> None:
        """Delete the log before the oldest snapshot, after writing old snapshots again."""
        oldest: dict[Partition, int] = {}
        await in_turns(self._write_old_snapshots(oldest))
        self.state_log.delete_before(oldest)

    def _write_old_snapshots(self, oldest: dict[Partition, int]) -> Iterator[None]:
        """Finds the offsets from which each partition of the state log is needed."""
        # What is created between two steps has its snapshot behind the present ends of the log.
        ends = self.state_log.end_offsets()
        for shared in list(self._states):
            yield None
            if self._states.find(shared.key) is not shared:
                continue
            try:
                place = self.state_log.partition_of(shared.key)
            except ApiError:
                continue  # it is damaged: see `delete_before`
            if place.log.end_offset - shared.snapshot_offset > COLD_AFTER_RECORDS:
                with suppress(ApiError):  # on a full disk the old snapshot remains
                    self._write_snapshot(shared)
            oldest[place] = min(oldest.get(place, ends.get(place, 0)), shared.snapshot_offset)

    async def prune_if_long(self) -> None:
        """Prune early if the next start would have to read much."""
        most = max(LONG_FROM_RECORDS, 4 * len(self._states))
        if self.state_log.record_count > most:
            await self.prune()

    def _write_snapshot(self, shared: SharedState) -> None:
        partition = self._partitions.get(shared.key)
        if partition is not None and shared.snapshot_offset >= 0:
            partition.append_snapshot()


def _place(shared: SharedPartition) -> SharePosition:
    state = shared.shared.partition
    return SharePosition(state.start_offset, shared.source.leader_epoch, shared.lag)
