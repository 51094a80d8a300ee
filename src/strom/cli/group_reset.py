"""Resetting a group: which partitions, and the new offset of each."""

from collections.abc import Mapping, Sequence

from strom.cli.connection import CliConnection
from strom.cli.offsets import OffsetRange, Point
from strom.cli.reading import resolve_ranges
from strom.cli.topics import missing_topic
from strom.client.groups import Committed, GroupAdmin
from strom.client.offsets import offset_bounds
from strom.model.errors import UserError
from strom.model.topics import TopicPartition


def chosen_partitions(admin: GroupAdmin, names: Sequence[str]) -> list[TopicPartition]:
    """The partitions that `TOPIC` or `TOPIC:0,1` name; UserError if one does not exist."""
    found: list[TopicPartition] = []
    for name in names:
        topic, colon, numbers = name.partition(":")
        known = admin.partitions_of([topic]).get(topic)
        if known is None:
            raise missing_topic(topic, [])
        wanted = [TopicPartition(topic, one) for one in _numbers(name, numbers)] if colon else known
        for partition in wanted:
            if partition not in known:
                raise UserError(
                    f"Topic {topic} has no partition {partition.partition}, "
                    f"only 0 to {len(known) - 1}."
                )
        found += wanted
    return sorted(set(found))


def _numbers(name: str, text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise UserError(
            f"{name!r} is not of the form TOPIC:PARTITION,…, as in clicks:0,1."
        ) from None


def moved_to(
    connection: CliConnection, partitions: Sequence[TopicPartition], point: Point
) -> dict[TopicPartition, int]:
    """The offset of a point in each partition, limited to its start and end."""
    ranges = resolve_ranges(connection, partitions, OffsetRange(point))
    return {partition: ranges[partition].begin for partition in partitions}


def moved_by(
    admin: GroupAdmin, committed: Mapping[TopicPartition, Committed], by: int
) -> dict[TopicPartition, int]:
    """Committed offsets shifted by a number, limited to each partition's start and end."""
    wanted = {partition: one.offset + by for partition, one in committed.items()}
    return within_bounds(admin, wanted)


def within_bounds(
    admin: GroupAdmin, wanted: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Offsets limited to each partition's start and end."""
    first, last = offset_bounds(admin.client, list(wanted))
    return {
        partition: min(max(offset, first[partition]), last[partition])
        for partition, offset in wanted.items()
    }
