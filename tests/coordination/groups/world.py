"""Groups without sockets, disk or clock: time passes when told, and the log is a list of bytes."""

import itertools
from collections.abc import Iterator
from typing import Any

from strom.coordination.groups.classic.group import ClassicGroup
from strom.coordination.groups.commands import (
    GroupCommand,
    GroupOutcome,
    GroupResponse,
    SessionTimeout,
    Timer,
)
from strom.coordination.groups.coordinator import GroupCoordinator
from strom.coordination.groups.group import ASSIGN_AT_ONCE
from strom.coordination.groups.log_format import decode, encode
from strom.coordination.groups.topics_image import FixedTopics, TopicInfo
from strom.model.broker_settings import BrokerSettings

START_MS = 1_000_000


class ChangingTopics(FixedTopics):
    """Topics that come, grow and go; one that comes again has another id."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = itertools.count(1)

    def change(self, partitions: dict[str, int]) -> None:
        """Let there be exactly these topics, with so many partitions."""
        topics = []
        for name, count in partitions.items():
            known = self.find(name)
            topic_id = next(self._numbers).to_bytes(16, "big") if known is None else known.id
            topics.append(TopicInfo(name, topic_id, count))
        super().__init__(topics)


class GroupWorld:
    """A coordinator with its log, its timers and its clients' unanswered requests."""

    def __init__(self, *, assign_at_once: int = ASSIGN_AT_ONCE, **settings: Any) -> None:
        self.settings = BrokerSettings(**settings)
        self.assign_at_once = assign_at_once
        self.topics = ChangingTopics()
        self.coordinator = self._fresh()
        self.assigning: dict[str, Iterator[GroupOutcome | None]] = {}
        """The groups that are assigned in the background."""
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = []
        self.timers: dict[Timer, int] = {}
        self.responses: dict[int, GroupResponse] = {}
        self.unanswered: set[int] = set()
        self.events: list[str] = []
        self._tickets = itertools.count(1)

    def _fresh(self) -> GroupCoordinator:
        return GroupCoordinator(self.settings, self.topics, assign_at_once=self.assign_at_once)

    def submit(self, command: GroupCommand) -> int:
        """Ask for something; the answer is found under the ticket when it is there."""
        self.assign(1)
        ticket = next(self._tickets)
        self.unanswered.add(ticket)
        self.carry_out(self.coordinator.handle(command, ticket, self.now_ms))
        return ticket

    def carry_out(self, outcome: GroupOutcome) -> None:
        """Write, replay, set timers, answer."""
        for record in outcome.records:
            self.log.append(encode(record))
            written = decode(*self.log[-1])
            assert written == record
            self.coordinator.replay(record)
            self.events.append(f"write {type(record).__name__}")
        for timer, after_ms in outcome.timers.items():
            if after_ms is None:
                self.timers.pop(timer, None)
            else:
                self.timers[timer] = self.now_ms + after_ms
            if not isinstance(timer, SessionTimeout) and after_ms is not None:
                self.events.append(f"timer {type(timer).__name__} in {after_ms} ms")
        for ticket, response in outcome.responses:
            assert ticket in self.unanswered, "answered twice, or never asked"
            self.unanswered.remove(ticket)
            self.responses[ticket] = response
        if outcome.needs_assignment and outcome.group not in self.assigning:
            self.assigning[outcome.group] = self.coordinator.assign(outcome.group, self.now_ms)
        self.check_memory()

    def assign(self, steps: int | None = None) -> None:
        """Do this many steps of the assignments in the background, or all."""
        for group, outcomes in list(self.assigning.items()):
            done = 0
            while done != steps:
                done += 1
                try:
                    outcome = next(outcomes)
                except StopIteration:
                    del self.assigning[group]
                    break
                if outcome is not None:
                    self.carry_out(outcome)

    def check_memory(self) -> None:
        """What is counted step by step must be what is there."""
        groups = self.coordinator.all_groups()
        for group in groups:
            if not isinstance(group, ClassicGroup):
                held = sum(one.subscription.held_bytes for one in group.members.values())
                assert group.held_bytes == held, group.id
        assert self.coordinator.memory.in_use == sum(group.held_bytes for group in groups)

    def change_topics(self, **partitions: int) -> None:
        """Let there be exactly these topics, with so many partitions."""
        self.topics.change(partitions)
        for outcome in filter(None, self.coordinator.on_topics_changed(self.now_ms)):
            self.carry_out(outcome)

    def wait(self, milliseconds: int) -> None:
        """Let time pass, and what is due happen."""
        end = self.now_ms + milliseconds
        while self.timers:
            timer = min(self.timers, key=lambda one: (self.timers[one], repr(one)))
            if self.timers[timer] > end:
                break
            self.now_ms = max(self.now_ms, self.timers.pop(timer))
            self.events.append(f"{type(timer).__name__} fires")
            self.carry_out(self.coordinator.on_timer(timer, self.now_ms))
        self.now_ms = end

    def rebuilt(self) -> GroupCoordinator:
        """A coordinator that knows nothing but the log."""
        coordinator = self._fresh()
        for key, value in self.log:
            record = decode(key, value)
            assert record is not None
            coordinator.replay(record)
        return coordinator

    def restart(self) -> None:
        """Crash: whoever waits hears nothing, and what is not in the log is gone."""
        self.unanswered.clear()
        self.timers.clear()
        self.assigning.clear()
        self.coordinator = self.rebuilt()
        for outcome in self.coordinator.resume():
            self.carry_out(outcome)
