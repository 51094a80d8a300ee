"""What was sent, what was acknowledged, and whether a topic holds exactly that."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from confluent_kafka import Consumer, TopicPartition

READ_SECONDS = 60


class Place(NamedTuple):
    """Where a record lies."""

    partition: int
    offset: int


@dataclass
class Ledger:
    """The books of one run. Every value is sent once, and says in what order it was."""

    sent: dict[int, list[bytes]] = field(default_factory=dict)
    """By partition, in the order of sending."""
    acked: dict[bytes, Place] = field(default_factory=dict)
    refused: list[tuple[bytes, str]] = field(default_factory=list)

    def note_sent(self, partition: int, value: bytes) -> None:
        """A record is in flight."""
        self.sent.setdefault(partition, []).append(value)

    def note_answer(self, error: Any, message: Any) -> None:
        """A client's delivery report."""
        if error is None:
            place = Place(message.partition(), message.offset())
            self.acked[message.value()] = place
        else:
            self.refused.append((message.value(), str(error)))

    def check(self, found: Mapping[int, list[bytes]], *, duplicates: bool = False) -> None:
        """Compare with what a topic holds, each partition a list by offset."""
        self.check_nothing_is_lost(found)
        self.check_nothing_is_invented(found)
        if not duplicates:
            self.check_nothing_is_there_twice(found)
            self.check_the_order(found)

    def check_nothing_is_lost(self, found: Mapping[int, list[bytes]]) -> None:
        """Every acknowledged record is where the acknowledgement said."""
        lost = [
            (place, value)
            for value, place in self.acked.items()
            if place.offset >= 0
            and found[place.partition][place.offset : place.offset + 1] != [value]
        ]
        present = {value for values in found.values() for value in values}
        lost += [
            (place, value)
            for value, place in self.acked.items()
            if place.offset < 0 and value not in present
        ]
        assert not lost, f"{len(lost)} acknowledged records lost, as {sorted(lost)[:3]}"

    def check_nothing_is_invented(self, found: Mapping[int, list[bytes]]) -> None:
        """Nothing is there that was not sent there."""
        for partition, values in found.items():
            invented = set(values) - set(self.sent.get(partition, []))
            assert not invented, f"never sent to {partition}: {sorted(invented)[:3]}"

    def check_nothing_is_there_twice(self, found: Mapping[int, list[bytes]]) -> None:
        """No value is there twice."""
        times = Counter(value for values in found.values() for value in values)
        twice = [value for value, count in times.items() if count > 1]
        assert not twice, f"{len(twice)} records are there twice, as {twice[:3]}"

    def check_the_order(self, found: Mapping[int, list[bytes]]) -> None:
        """Each partition has its records in the order in which they were sent."""
        for partition, values in found.items():
            order = {value: place for place, value in enumerate(self.sent.get(partition, []))}
            places = [order[value] for value in values]
            assert places == sorted(places), f"partition {partition} is out of order"


def read_topic(bootstrap_servers: str, topic: str, partitions: int) -> dict[int, list[bytes]]:
    """Everything in a topic, by partition; offsets must have no gaps."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "judge",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
        }
    )
    found: dict[int, list[bytes]] = {partition: [] for partition in range(partitions)}
    try:
        ends = {
            partition: consumer.get_watermark_offsets(
                TopicPartition(topic, partition), timeout=READ_SECONDS
            )[1]
            for partition in found
        }
        consumer.assign([TopicPartition(topic, partition, 0) for partition in found])
        while missing := sum(ends.values()) - sum(map(len, found.values())):
            messages = consumer.consume(min(missing, 10_000), timeout=10)
            assert messages, f"reading stopped: {({p: len(v) for p, v in found.items()}, ends)}"
            for message in messages:
                assert message.error() is None, message.error()
                values = found[message.partition()]
                assert message.offset() == len(values), "a gap, or an offset that came twice"
                values.append(message.value())
    finally:
        consumer.close()
    return found
