"""The tables of `kafka-consumer-groups`, character by character as Kafka prints them."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from strom.client.groups import GroupDescription, GroupMember, PartitionLag
from strom.model.topics import TopicPartition

NONE = "-"
_NAME = 15
_GAP = 10
_LONGEST_PLAIN = 24
_COORDINATOR = 25
_ASSIGNMENT = 20
_INSTANCE = 17


def groups_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The list of groups with further columns."""
    width = max([_NAME, *(len(name) for name, *_ in rows)]) + _GAP
    lines = [["GROUP", *titles], *rows]
    return "\n".join(
        " ".join([f"{name:<{width}}", *(f"{value:<20}" for value in values)])
        for name, *values in lines
    )


def offsets_table(group: str, rows: Sequence[PartitionLag], *, verbose: bool) -> str:
    """The offsets and lag of a group."""
    head = ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    head += ["CONSUMER-ID", "HOST", "CLIENT-ID"]
    table = [head, *(_offset_cells(group, row) for row in rows)]
    widths = [0, 0, 10, 15, 15, 15, 0, 0, None]
    if verbose:
        epochs = ["LEADER-EPOCH", *(_cell(row.leader_epoch) for row in rows)]
        for line, epoch in zip(table, epochs, strict=True):
            line.insert(3, epoch)
        widths.insert(3, 15)
    return "\n" + "\n".join(_aligned(table, widths))


def _offset_cells(group: str, row: PartitionLag) -> list[str]:
    member = row.member
    return [
        group,
        row.partition.topic if row.partition else NONE,
        _cell(row.partition.partition if row.partition else None),
        _cell(row.current),
        _cell(row.end),
        _cell(row.lag),
        member.id if member else NONE,
        member.host if member else NONE,
        member.client_id if member else NONE,
    ]


def members_table(group: GroupDescription, *, verbose: bool) -> str:
    """The members of a group."""
    has_static = any(member.instance for member in group.members)
    head = ["GROUP", "CONSUMER-ID", *(["GROUP-INSTANCE-ID"] if has_static else [])]
    head += ["HOST", "CLIENT-ID", "#PARTITIONS"]
    widths: list[int | None] = [0, 0, *([_INSTANCE] if has_static else []), 0, 0, 15]
    if verbose:
        head += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        widths += [15, _ASSIGNMENT, 15, _ASSIGNMENT]
    table = [head]
    for member in group.members:
        instance = [member.instance or ""] if has_static else []
        more = _epochs_and_shares(group, member) if verbose else []
        cells = [member.host, member.client_id, str(len(member.partitions))]
        table.append([group.name, member.id, *instance, *cells, *more])
    end = "" if verbose else " "
    return "\n" + "\n".join(line + end for line in _aligned(table, widths))


def _epochs_and_shares(group: GroupDescription, member: GroupMember) -> list[str]:
    current = [_cell(member.epoch), _assignment(member.partitions)]
    if member.target is None:
        return [*current, NONE, NONE]
    return [*current, _cell(group.target_epoch), _assignment(member.target)]


def _assignment(share: Sequence[TopicPartition]) -> str:
    by_topic = groupby(share, key=lambda one: one.topic)
    shares = [
        f"{topic}:{','.join(str(one.partition) for one in partitions)}"
        for topic, partitions in by_topic
    ]
    return ";".join(shares) or NONE


def state_table(group: GroupDescription, *, verbose: bool) -> str:
    """The state of a group."""
    head = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"]
    cells = [
        group.name,
        f"{group.coordinator}  ({group.coordinator_id})",
        group.assignor or NONE,
        group.state,
    ]
    widths: list[int | None] = [0, _COORDINATOR, 20, 20]
    if verbose:
        head += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        cells += [_cell(group.epoch), _cell(group.target_epoch)]
        widths += [15, 25]
    table = [[*head, "#MEMBERS"], [*cells, str(len(group.members))]]
    return "\n" + "\n".join(_aligned(table, [*widths, None]))


def deleted_table(rows: Sequence[tuple[str, int | None, str]]) -> str:
    """The result of deleting offsets."""
    table = [["TOPIC", "PARTITION", "STATUS"]]
    table += [[topic, _cell(partition), status] for topic, partition, status in rows]
    width = max(_NAME, *(len(topic) for topic, *_ in table))
    return "\n" + "\n".join(
        f"{topic:<{width}} {partition:<10} {status:<{_NAME}}" for topic, partition, status in table
    )


def moved_table(moved: Mapping[str, Mapping[TopicPartition, int]]) -> str:
    """The new offsets of groups."""
    table = [["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]]
    for group, offsets in moved.items():
        for partition, offset in offsets.items():
            table.append([group, partition.topic, str(partition.partition), str(offset)])
    return "\n" + "\n".join(_aligned(table, [0, 0, 10, None]))


def moved_lines(moved: Mapping[str, Mapping[TopicPartition, int]]) -> str:
    """The new offsets as CSV for --from-file; for several groups, with their names."""
    lines = []
    for group, offsets in moved.items():
        for one, offset in offsets.items():
            names = [group, one.topic] if len(moved) > 1 else [one.topic]
            lines.append(",".join([*map(_quoted, names), str(one.partition), str(offset)]) + "\n")
    return "".join(lines)


def _quoted(name: str) -> str:
    # Kafka's CSV writer (Jackson) quotes texts of more than 24 characters without inspecting them.
    return f'"{name}"' if len(name) > _LONGEST_PLAIN else name


def _cell(number: int | None) -> str:
    return NONE if number is None else str(number)


def _aligned(table: Sequence[Sequence[str]], widths: Sequence[int | None]) -> list[str]:
    """Columns of at least these widths; 0 stands for the width of names, None for no padding."""
    columns = [
        0 if width is None else max(width or _NAME, *(len(line[index]) for line in table))
        for index, width in enumerate(widths)
    ]
    return [
        " ".join(cell.ljust(width) for cell, width in zip(line, columns, strict=True))
        for line in table
    ]
