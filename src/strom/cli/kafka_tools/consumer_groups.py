"""`strom kafka-consumer-groups`: Kafka's group tool, with the same output.

Unlike Kafka's, it exits with code 1 after an error, so that scripts notice.
"""

import time
from pathlib import Path
from typing import Any, NoReturn

import click

from strom.cli.connection import CliConnection
from strom.cli.groups import chosen_partitions, moved_by, moved_to, within_bounds
from strom.cli.kafka_tools.flags import server_flags
from strom.cli.kafka_tools.group_tables import (
    deleted_table,
    groups_table,
    members_table,
    moved_lines,
    moved_table,
    offsets_table,
    state_table,
)
from strom.cli.kafka_tools.iso_times import parse_datetime_ms, parse_duration_ms
from strom.cli.offsets import END, START, Anchor, Point
from strom.cli.options import EXISTING_FILE
from strom.cli.printing import notice
from strom.client.groups import RESETTABLE, GroupAdmin, GroupDescription, ListedGroup
from strom.client.kafka_errors import error_name, kafka_exceptions, kafka_reason
from strom.model.errors import ErrorCode, UserError
from strom.model.patterns import compile_pattern
from strom.model.topics import TopicPartition

ACTIONS = ("list", "describe", "delete", "delete_offsets", "reset_offsets", "validate_regex")
REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
TARGETS = (
    "to_earliest",
    "to_latest",
    "to_current",
    "to_offset",
    "to_datetime",
    "by_duration",
    "shift_by",
    "from_file",
)
_ANY = "any"
_PREFIX = "org.apache.kafka.common.errors."
_JAVA = {
    ErrorCode.GROUP_ID_NOT_FOUND: (
        "GroupIdNotFoundException",
        "The group id does not exist.",
    ),
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "GroupSubscribedToTopicException",
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to "
        "it.",
    ),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (
        "UnknownTopicOrPartitionException",
        "This server does not host this topic-partition.",
    ),
    ErrorCode.NON_EMPTY_GROUP: ("GroupNotEmptyException", "The group is not empty."),
}
"""The exceptions of the Java client, with their messages."""


@click.command("kafka-consumer-groups")
@click.option("--list", is_flag=True, help="List all consumer groups.")
@click.option("--describe", is_flag=True, help="Describe a group, and how far it lags behind.")
@click.option("--delete", is_flag=True, help="Delete groups that have no members.")
@click.option("--delete-offsets", is_flag=True, help="Forget how far a group has read topics.")
@click.option(
    "--validate-regex", metavar="REGEX", help="See whether members may subscribe with it."
)
@click.option("--reset-offsets", is_flag=True, help="Move a group that has no members.")
@click.option("--group", multiple=True, help="A group; may be given several times.")
@click.option("--all-groups", is_flag=True, help="All groups.")
@click.option("--topic", multiple=True, metavar="TOPIC[:0,1]", help="Where to move the group.")
@click.option("--all-topics", is_flag=True, help="Move it in all topics that it has read.")
@click.option("--members", is_flag=True, help="With --describe: the members.")
@click.option("--offsets", is_flag=True, help="With --describe: the offsets (the default).")
@click.option(
    "--state",
    is_flag=False,
    flag_value=_ANY,
    metavar="[STATES]",
    help="With --describe: the state; with --list: show it, or only groups in some.",
)
@click.option(
    "--type", is_flag=False, flag_value=_ANY, metavar="[TYPES]", help="With --list: show the type."
)
@click.option("--verbose", is_flag=True, help="With --describe: more columns.")
@click.option("--to-earliest", is_flag=True, help="Go on with the oldest record.")
@click.option("--to-latest", is_flag=True, help="Go on with what comes next.")
@click.option("--to-current", is_flag=True, help="Stay where it is.")
@click.option("--to-offset", type=int, help="Go on with this offset.")
@click.option("--to-datetime", metavar="YYYY-MM-DDTHH:mm:SS.sss", help="Go on from a time.")
@click.option("--by-duration", metavar="PnDTnHnMnS", help="Go on from so long ago.")
@click.option("--shift-by", type=int, help="Go on so many records later, or earlier.")
@click.option(
    "--from-file", type=EXISTING_FILE, help="Go on as a file of topic,partition,offset says."
)
@click.option("--execute", is_flag=True, help="Really move it.")
@click.option("--dry-run", is_flag=True, help="Only show where it would go on.")
@click.option("--export", is_flag=True, help="Print topic,partition,offset, for --from-file.")
@click.option("--timeout", type=int, help="Accepted and ignored.")
@server_flags(config_flags=("--command-config",))
def kafka_consumer_groups(connection: CliConnection, **options: Any) -> None:
    """List, describe, move and delete consumer groups."""
    chosen = [action for action in ACTIONS if options[action]]
    if len(chosen) != 1:
        raise click.UsageError(
            "Command must include exactly one action: --list, --describe, --delete, "
            "--reset-offsets, --delete-offsets, --validate-regex."
        )
    action = chosen[0]
    if action == "validate_regex":
        _validate_regex(options["validate_regex"])
        return
    if action != "list" and not (options["group"] or options["all_groups"]):
        flag = action.replace("_", "-")
        raise click.UsageError(f"Option [{flag}] takes one of these options: [group], [all-groups]")
    if action == "reset_offsets":
        _check_reset(options)
    try:
        _RUN[action](connection, GroupAdmin(connection), options)
    except UserError as error:
        _fail(f"Executing consumer group command failed due to {error}")
    except kafka_exceptions() as error:
        _fail(f"Executing consumer group command failed due to {kafka_reason(error)}")


def _fail(reason: str) -> NoReturn:
    click.echo(f"\nError: {reason}")
    click.get_current_context().exit(1)


def _names(admin: GroupAdmin, options: dict[str, Any]) -> list[str]:
    if options["all_groups"]:
        return [group.name for group in admin.groups()]
    return list(dict.fromkeys(options["group"]))


# --- list and describe ---------------------------------------------------------------------------


def _list(connection: CliConnection, admin: GroupAdmin, options: dict[str, Any]) -> None:
    found = [group for group in admin.groups() if _passes(group, options)]
    titles = [title for title in ("TYPE", "STATE") if options[title.lower()]]
    if titles:
        rows = [
            (group.name, *(getattr(group, title.lower()) for title in titles)) for group in found
        ]
        click.echo(groups_table(titles, rows))
        return
    for group in found:
        click.echo(group.name)


def _passes(group: ListedGroup, options: dict[str, Any]) -> bool:
    for wanted, value in ((options["state"], group.state), (options["type"], group.type)):
        if wanted not in (None, _ANY):
            names = {name.strip().lower() for name in wanted.split(",")}
            if value.lower() not in names:
                return False
    return True


def _describe(connection: CliConnection, admin: GroupAdmin, options: dict[str, Any]) -> None:
    if sum(bool(options[kind]) for kind in ("members", "offsets", "state")) > 1:
        raise click.UsageError(
            "Option [describe] takes at most one of --members, --offsets, --state."
        )
    for name in _names(admin, options):
        group = admin.describe(name)
        if not group.exists:
            _fail(
                "Executing consumer group command failed due to "
                f"{_PREFIX}GroupIdNotFoundException: Group {name} not found."
            )
        _print_group(admin, group, options)


def _print_group(admin: GroupAdmin, group: GroupDescription, options: dict[str, Any]) -> None:
    if group.state == "Empty":
        notice(f"\nConsumer group '{group.name}' has no active members.")
    elif group.state in REBALANCING:
        notice(f"\nWarning: Consumer group '{group.name}' is rebalancing.")
    if options["members"]:
        click.echo(members_table(group, verbose=options["verbose"]))
    elif options["state"]:
        click.echo(state_table(group, verbose=options["verbose"]))
    else:
        click.echo(offsets_table(group.name, admin.lags(group), verbose=options["verbose"]))


# --- delete --------------------------------------------------------------------------------------


def _delete(connection: CliConnection, admin: GroupAdmin, options: dict[str, Any]) -> None:
    deleted, failed = [], {}
    for name in _names(admin, options):
        try:
            admin.delete(name)
            deleted.append(name)
        except kafka_exceptions() as error:
            java = _JAVA.get(getattr(ErrorCode, error_name(error), ErrorCode.NONE))
            failed[name] = f"{_PREFIX}{java[0]}: {java[1]}" if java else kafka_reason(error)
    names = ", ".join(f"'{name}'" for name in deleted)
    if not failed:
        click.echo(f"Deletion of requested consumer groups ({names}) was successful.")
        return
    click.echo("\nError: Deletion of some consumer groups failed:")
    for name, reason in failed.items():
        click.echo(f"* Group '{name}' could not be deleted due to: {reason}")
    if deleted:
        click.echo(f"\nThese consumer groups were deleted successfully: {names}")
    click.get_current_context().exit(1)


def _delete_offsets(connection: CliConnection, admin: GroupAdmin, options: dict[str, Any]) -> None:
    if len(options["group"]) != 1 or not options["topic"]:
        raise click.UsageError("Option [delete-offsets] takes these options: [group], [topic]")
    (name,) = options["group"]
    rows: list[tuple[str, int | None, str]] = []
    wanted: list[TopicPartition] = []
    for topic in options["topic"]:
        if topic.partition(":")[0] in admin.partitions_of([topic.partition(":")[0]]):
            wanted += chosen_partitions(admin, [topic])
        else:
            rows.append((topic, None, _status(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)))
    code, codes = admin.delete_offsets(name, wanted) if wanted else (ErrorCode.NONE, {})
    rows += [(one.topic, one.partition, _status(each)) for one, each in codes.items()]
    if code is not ErrorCode.NONE:
        click.echo(f"\nError: {_JAVA[code][1]}")
    elif any(codes.values()):
        click.echo("\nError: Encountered some partition-level error, see the follow-up details.")
    else:
        click.echo(f"Request succeeded for deleting offsets from group {name}.")
    click.echo(deleted_table(sorted(rows, key=lambda row: (row[0], row[1] or 0))))
    if code is not ErrorCode.NONE or any(codes.values()):
        click.get_current_context().exit(1)


def _status(code: ErrorCode) -> str:
    if code is ErrorCode.NONE:
        return "Successful"
    exception, text = _JAVA.get(code, ("UnknownServerException", code.text))
    return f"Error: {_PREFIX}{exception}: {text}"


def _validate_regex(text: str) -> None:
    try:
        compile_pattern(text)
    except ValueError as error:
        click.echo(f"The regular expression `{text}` is invalid: {error}.")
        click.get_current_context().exit(1)
    click.echo(f"The regular expression `{text}` is valid.")


# --- reset-offsets -------------------------------------------------------------------------------


def _check_reset(options: dict[str, Any]) -> None:
    if options["execute"] and options["dry_run"]:
        raise click.UsageError("Option [reset-offsets] takes only one of --execute and --dry-run.")
    if not (options["execute"] or options["dry_run"]):
        notice(
            "WARN: No action will be performed as the --execute option is missing. In version 5.0, "
            "this command will require either --dry-run or --execute to be specified. You should add "
            "the --dry-run option explicitly if you are scripting this command and want to keep the "
            "current default behavior without prompting."
        )
    targets = [name for name in TARGETS if options[name] not in (None, False)]
    if len(targets) != 1:
        known = ", ".join(f"[{name.replace('_', '-')}]" for name in TARGETS)
        raise click.UsageError(
            f"Option '[reset-offsets]' requires one of the following scenarios: [{known}]"
        )
    if not (options["topic"] or options["all_topics"] or options["from_file"]):
        raise click.UsageError("One of the reset scopes should be defined: --all-topics, --topic.")


def _reset(connection: CliConnection, admin: GroupAdmin, options: dict[str, Any]) -> None:
    moved: dict[str, dict[TopicPartition, int]] = {}
    for name in _names(admin, options):
        state = admin.describe(name).state
        if state not in RESETTABLE:
            click.echo(
                f"\nError: Assignments can only be reset if the group '{name}' is inactive, but the "
                f"current state is {state}."
            )
            moved[name] = {}
            continue
        moved[name] = _moved(connection, admin, name, options)
        if options["execute"]:
            admin.set_offsets(name, moved[name])
    click.echo(moved_lines(moved) if options["export"] else moved_table(moved))


def _moved(
    connection: CliConnection, admin: GroupAdmin, group: str, options: dict[str, Any]
) -> dict[TopicPartition, int]:
    if options["from_file"]:
        return within_bounds(admin, _read_plan(options["from_file"], group))
    committed = admin.committed(group)
    partitions = sorted(committed)
    if options["topic"]:
        partitions = chosen_partitions(admin, options["topic"])
    if options["shift_by"] is not None or options["to_current"]:
        known = {one: committed[one] for one in partitions if one in committed}
        unread = [one for one in partitions if one not in committed]
        if unread and options["shift_by"] is not None:
            raise UserError(
                f"Cannot shift offset for partition {unread[0]} since there is no current "
                "committed offset"
            )
        at_end = moved_to(connection, unread, END) if unread else {}
        return moved_by(admin, known, options["shift_by"] or 0) | at_end
    return moved_to(connection, partitions, _point(options))


def _point(options: dict[str, Any]) -> Point:
    if options["to_earliest"]:
        return START
    if options["to_latest"]:
        return END
    if options["to_offset"] is not None:
        return Point(Anchor.OFFSET, options["to_offset"])
    if options["to_datetime"]:
        return Point(Anchor.TIME, parse_datetime_ms(options["to_datetime"]))
    ago_ms = parse_duration_ms(options["by_duration"])
    return Point(Anchor.TIME, time.time_ns() // 1_000_000 - ago_ms)


def _read_plan(path: Path, group: str) -> dict[TopicPartition, int]:
    """Lines of topic,partition,offset, or of group,topic,partition,offset."""
    plan = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        cells = [cell.strip().strip('"') for cell in line.split(",")]
        if not line.strip() or (len(cells) == 4 and cells.pop(0) != group):
            continue
        try:
            topic, partition, offset = cells
            plan[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise UserError(
                f"line {number} of {path} is not topic,partition,offset: {line!r}"
            ) from None
    return plan


_RUN = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "delete_offsets": _delete_offsets,
    "reset_offsets": _reset,
}
