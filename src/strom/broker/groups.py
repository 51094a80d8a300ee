"""Runs the group coordinator: writes its records, sets its timers, sends its responses.

The records of a group go to one partition of `__consumer_offsets`. They are replayed as soon as they
are appended, and a response is sent when everything appended to that partition before is durable: so no
client sees a state that a crash could undo.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from strom.broker.broker import Broker
from strom.broker.partition import Partition
from strom.broker.replaying import Replayed
from strom.broker.state_topic import StateTopic, respond, to_client_error
from strom.broker.turns import in_turns
from strom.coordination.groups.commands import (
    GroupCommand,
    GroupOutcome,
    MemberTimer,
    SyncGroup,
    Timer,
)
from strom.coordination.groups.coordinator import GroupCoordinator
from strom.coordination.groups.log_format import decode, encode
from strom.coordination.groups.pending_offsets import OpenTransaction
from strom.coordination.groups.records import GroupRecord, is_offset_key
from strom.model.errors import ApiError, ErrorCode
from strom.model.settings import MINUTE_MS
from strom.model.topics import CONSUMER_OFFSETS_TOPIC, TopicPartition
from strom.storage.log import Appended
from strom.wire.kafka.batch import BatchHeader
from strom.wire.kafka.records import ControlType, Marker
from strom.wire.kafka.schema import NO_UUID, Uuid

log = logging.getLogger(__name__)

T = TypeVar("T")

MARKER_RETENTION_MS = MINUTE_MS
"""How long tombstones and markers of superseded offsets are kept. Every transaction writes a marker:
within Kafka's default of a day these can be millions, and a start reads them all."""
RETRY_MS = 5_000
"""The retry interval after a member could not be removed, for example because the disk is full."""


class GroupTimers:
    """The timers of all groups, each by its name.

    Of those that expire at the same time, each has a turn of the event loop: after an outage of their
    clients thousands of members may expire at once, and each may change the assignment of its group.
    """

    def __init__(self, on_timer: Callable[[Timer], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_timer = on_timer
        self._running: dict[Timer, asyncio.TimerHandle] = {}
        self._expired: deque[tuple[Timer, asyncio.TimerHandle]] = deque()
        self._stopped = False

    def set(self, timers: Mapping[Timer, int | None]) -> None:
        """Start timers, which replaces those of the same name, or cancel them (None)."""
        for timer, after_ms in timers.items():
            running = self._running.pop(timer, None)
            if running is not None:
                running.cancel()
            if after_ms is not None and not self._stopped:
                self._running[timer] = self._loop.call_later(after_ms / 1000, self._expire, timer)

    def cancel(self) -> None:
        for handle in self._running.values():
            handle.cancel()
        self._running.clear()

    def stop(self) -> None:
        self._stopped = True
        self.cancel()

    def _expire(self, timer: Timer) -> None:
        self._expired.append((timer, self._running[timer]))
        if len(self._expired) == 1:
            self._loop.call_soon(self._fire_next)

    def _fire_next(self) -> None:
        timer, handle = self._expired.popleft()
        if self._expired:
            self._loop.call_soon(self._fire_next)
        if self._running.get(timer) is handle:  # not cancelled or set again meanwhile
            del self._running[timer]
            self._on_timer(timer)


class Groups:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._loop = asyncio.get_running_loop()
        self._coordinator = _coordinator(broker)
        self._timers = GroupTimers(self._on_timer)
        self._waiting: dict[asyncio.Future[Any], GroupCommand] = {}
        self._unassigned: dict[str, None] = {}
        self._assigning: asyncio.Task[None] | None = None
        settings = broker.settings
        self.topic = StateTopic(
            broker,
            CONSUMER_OFFSETS_TOPIC,
            settings.offsets_topic_num_partitions,
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(settings.offsets_topic_segment_bytes),
                "delete.retention.ms": str(MARKER_RETENTION_MS),
            },
        )
        broker.on_topic_deleted.append(self._on_topic_deleted)
        broker.after_topic_deleted.append(self._delete_offsets_of)
        broker.after_topics_changed.append(self._assign_again)

    # --- lifecycle -----------------------------------------------------------------------------

    def load(self) -> None:
        """Restore all groups from the log."""
        for partition, (header, records, marker) in self.topic.read(_decoded, is_offset_key):
            producer_id = header.producer_id if header.is_transactional else None
            self._replay(partition, producer_id, records, marker)
        for outcome in self._coordinator.resume():
            self._timers.set(outcome.timers)
        # A crash may have come just after the deletion of a topic.
        deque(self._effects(self._coordinator.delete_topic_offsets(self._is_gone)), maxlen=0)

    def stop(self) -> None:
        """Fail all requests that wait for other members; those that wait for the disk still complete."""
        self.topic.stop()
        self._timers.stop()
        if self._assigning is not None:
            self._assigning.cancel()
        self._fail_waiting(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    async def complete_topic(self) -> None:
        """Set the retention of a `__consumer_offsets` that version 0.1.0 created without it."""
        await self.topic.complete("delete.retention.ms")

    # --- requests ------------------------------------------------------------------------------

    def submit(self, command: GroupCommand) -> "asyncio.Future[Any]":
        """Run a command; its response comes when its records are durable."""
        ticket: asyncio.Future[Any] = self._loop.create_future()
        try:
            self.topic.partition_of(command.group)
        except ApiError as error:
            ticket.set_result(self._coordinator.error_response(command, error.code))
            return ticket
        # It may wait for long, and the coordinator takes what it needs of the assignments.
        waiting = replace(command, assignments=()) if isinstance(command, SyncGroup) else command
        self._waiting[ticket] = waiting
        self._carry_out(self._coordinator.handle(command, ticket, self._broker.clock.now_ms()))
        return ticket

    async def read(self, group: str, look: Callable[[GroupCoordinator], T]) -> T:
        """Read the state of a group, when it is durable."""
        partition = self.topic.partition_of(group)
        seen = look(self._coordinator)
        code = await self.topic.wait_until_durable(partition)
        if code is not ErrorCode.NONE:
            raise ApiError(to_client_error(code))
        return seen

    def offsets_partition(self, group: str) -> TopicPartition:
        """The partition that holds a group's offsets; NOT_COORDINATOR while it cannot be used."""
        return self.topic.partition_of(group).log.partition

    def look(self) -> GroupCoordinator:
        return self._coordinator

    async def expire_offsets(self) -> None:
        """Delete expired offsets and groups."""
        await self._carry_out_in_turns(self._coordinator.expire(self._broker.clock.now_ms()))

    # --- outcomes ------------------------------------------------------------------------------

    def _carry_out(self, outcome: GroupOutcome) -> ErrorCode:
        """Carry out an outcome; returns the error if its records could not be written."""
        for ticket, _ in outcome.responses:
            self._waiting.pop(ticket, None)
        try:
            partition = self.topic.partition_of(outcome.group)
            if outcome.records:
                self.topic.append(
                    partition, self.topic.batch_of(map(encode, outcome.records), outcome.producer)
                )
                producer_id = None if outcome.producer is None else outcome.producer[0]
                self._replay(partition, producer_id, outcome.records)
        except ApiError as error:
            log.warning("A change to group %r was not written: %s", outcome.group, error)
            self._coordinator.on_refused(outcome)
            self._timers.set(outcome.timers)
            respond(outcome.responses, error.code)
            return error.code
        self._timers.set(outcome.timers)
        if outcome.needs_assignment:
            self._assign_in_turns(outcome.group)
        if outcome.responses:
            self.topic.on_durable(partition, lambda code: respond(outcome.responses, code))
        return ErrorCode.NONE

    async def _carry_out_in_turns(self, outcomes: Iterator[GroupOutcome | None]) -> None:
        """Carry out outcomes, each of which is looked for when those before it are carried out."""
        await in_turns(self._effects(outcomes))

    def _effects(self, outcomes: Iterator[GroupOutcome | None]) -> Iterator[None]:
        coordinator = self._coordinator
        for outcome in outcomes:
            if self._coordinator is not coordinator or self.topic.is_stopped:
                return  # the topic of offsets was deleted, or the broker stops
            if outcome is not None:
                self._carry_out(outcome)
            yield None

    def _assign_in_turns(self, group: str) -> None:
        """Assign a large group, after those that wait for the same."""
        self._unassigned[group] = None
        if self._assigning is None and not self.topic.is_stopped:
            self._assigning = self._loop.create_task(self._assign_all())

    async def _assign_all(self) -> None:
        try:
            while self._unassigned:
                group = next(iter(self._unassigned))
                try:
                    now_ms = self._broker.clock.now_ms()
                    await self._carry_out_in_turns(self._coordinator.assign(group, now_ms))
                except Exception:  # the groups behind it must not wait for another heartbeat
                    log.exception("The assignment of group %r failed", group)
                finally:
                    # If it has changed meanwhile, the next heartbeat asks again.
                    del self._unassigned[group]
        finally:
            self._assigning = None

    def write_marker(
        self, marker: Marker, producer_id: int, partition: Partition, batch: bytearray
    ) -> Appended:
        """Write a marker; the offsets of its transaction are committed or dropped."""
        appended = self.topic.append(partition, batch)
        self._replay(partition, producer_id, [], marker)
        return appended

    def _replay(
        self,
        partition: Partition,
        producer_id: int | None,
        records: list[GroupRecord],
        marker: Marker | None = None,
    ) -> None:
        """Replay records, at run time and at start-up alike; in a transaction with its producer."""
        transaction = None
        if producer_id is not None:
            transaction = OpenTransaction(partition.log.partition.partition, producer_id)
        for record in records:
            self._coordinator.replay(record, transaction)
        if marker is not None and transaction is not None:
            committed = marker.type is ControlType.COMMIT
            self._coordinator.end_transaction(transaction, committed=committed)

    def _on_timer(self, timer: Timer) -> None:
        code = self._carry_out(self._coordinator.on_timer(timer, self._broker.clock.now_ms()))
        # A member that expires while the disk is full must not keep its partitions for good.
        is_served = code is not ErrorCode.NOT_COORDINATOR
        if code is not ErrorCode.NONE and is_served and isinstance(timer, MemberTimer):
            self._timers.set({timer: RETRY_MS})

    def _fail_waiting(self, code: ErrorCode) -> None:
        self._timers.cancel()
        waiting, self._waiting = self._waiting, {}
        respond(
            (ticket, self._coordinator.error_response(command, code))
            for ticket, command in waiting.items()
        )

    def _on_topic_deleted(self, topic: str) -> None:
        if topic == CONSUMER_OFFSETS_TOPIC:
            self._coordinator = _coordinator(self._broker)
            self.topic.forget()
            self._fail_waiting(ErrorCode.NOT_COORDINATOR)

    async def _delete_offsets_of(self, topic: str) -> None:
        await self._carry_out_in_turns(
            self._coordinator.delete_topic_offsets(lambda name, _: name == topic)
        )

    async def _assign_again(self) -> None:
        now_ms = self._broker.clock.now_ms()
        await self._carry_out_in_turns(self._coordinator.on_topics_changed(now_ms))

    def _is_gone(self, topic: str, topic_id: Uuid) -> bool:
        hosted = self._broker.find_topic(topic)
        return hosted is None or topic_id not in (NO_UUID, hosted.topic.id.bytes)


def _coordinator(broker: Broker) -> GroupCoordinator:
    return GroupCoordinator(broker.settings, broker.topics_image, broker.group_settings)


def _decoded(batch: Replayed) -> tuple[BatchHeader, list[GroupRecord], Marker | None]:
    decoded = [decode(one.key, one.value) for one in batch.records]
    return batch.header, [record for record in decoded if record is not None], batch.marker
