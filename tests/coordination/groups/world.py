"""Groups without sockets, disk or clock: time passes when told, and the log is a list of bytes."""

import itertools
from typing import Any

from strom.coordination.groups.commands import Command
from strom.coordination.groups.coordinator import GroupCoordinator
from strom.coordination.groups.log_format import decode, encode
from strom.coordination.groups.outcome import Answer, Outcome, SessionEnds, Timer
from strom.coordination.groups.topics_image import PlainTopics, TopicFacts
from strom.model.broker_settings import BrokerSettings

START_MS = 1_000_000


class ChangingTopics(PlainTopics):
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
            topics.append(TopicFacts(name, topic_id, count))
        super().__init__(topics)


class GroupWorld:
    """A coordinator with its log, its timers and its clients' unanswered requests."""

    def __init__(self, **settings: Any) -> None:
        self.settings = BrokerSettings(**settings)
        self.topics = ChangingTopics()
        self.coordinator = GroupCoordinator(self.settings, self.topics)
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = []
        self.timers: dict[Timer, int] = {}
        self.answers: dict[int, Answer] = {}
        self.unanswered: set[int] = set()
        self.events: list[str] = []
        self._tickets = itertools.count(1)

    def submit(self, command: Command) -> int:
        """Ask for something; the answer is found under the ticket when it is there."""
        ticket = next(self._tickets)
        self.unanswered.add(ticket)
        self.carry_out(self.coordinator.handle(command, ticket, self.now_ms))
        return ticket

    def carry_out(self, outcome: Outcome) -> None:
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
            if not isinstance(timer, SessionEnds) and after_ms is not None:
                self.events.append(f"timer {type(timer).__name__} in {after_ms} ms")
        for ticket, answer in outcome.answers:
            assert ticket in self.unanswered, "answered twice, or never asked"
            self.unanswered.remove(ticket)
            self.answers[ticket] = answer

    def change_topics(self, **partitions: int) -> None:
        """Let there be exactly these topics, with so many partitions."""
        self.topics.change(partitions)
        for outcome in self.coordinator.topics_changed(self.now_ms):
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
            self.carry_out(self.coordinator.timer_fired(timer, self.now_ms))
        self.now_ms = end

    def rebuilt(self) -> GroupCoordinator:
        """A coordinator that knows nothing but the log."""
        coordinator = GroupCoordinator(self.settings, self.topics)
        for key, value in self.log:
            record = decode(key, value)
            assert record is not None
            coordinator.replay(record)
        return coordinator

    def restart(self) -> None:
        """Crash: whoever waits hears nothing, and what is not in the log is gone."""
        self.unanswered.clear()
        self.timers.clear()
        self.coordinator = self.rebuilt()
        for outcome in self.coordinator.resume():
            self.carry_out(outcome)
