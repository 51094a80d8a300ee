"""`strom topics segments`: the files of a topic, and when retention deletes them."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

import click

from strom.cli.options import json_option
from strom.cli.printing import human_bytes, print_found
from strom.model.broker_settings import BrokerSettings
from strom.model.clock import SystemClock


class Row(TypedDict):
    """One segment, as printed in JSON; times in milliseconds since 1970."""

    partition: int
    base_offset: int
    next_offset: int
    size_bytes: int
    index_bytes: dict[str, int]
    active: bool
    youngest_ms: int | None
    deletion_ms: int | None


_COLUMNS = (
    "PARTITION",
    "FIRST OFFSET",
    "NEXT OFFSET",
    "SIZE",
    "INDEXES",
    "YOUNGEST RECORD",
    "DELETION",
)


@click.command()
@click.argument("name")
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=BrokerSettings.definition("log.dirs").documented_default,
    show_default=True,
    help="The data directory of the broker, which may be running.",
)
@json_option
def segments(name: str, data: Path, as_json: bool) -> None:
    """List the segments of a topic: sizes, youngest record, and next deletion.

    The deletion is the earliest if nothing more is written, by the settings in the data directory and the
    defaults for the rest: those given to `strom start` are not stored. Times are in UTC.
    """
    rows = _rows(name, data.as_posix())
    table = [
        (
            row["partition"],
            row["base_offset"],
            row["next_offset"],
            human_bytes(row["size_bytes"]),
            human_bytes(sum(row["index_bytes"].values())),
            _time(row["youngest_ms"]),
            _time(row["deletion_ms"]),
        )
        for row in rows
    ]
    print_found(rows, _COLUMNS, table, as_json=as_json)


def _rows(name: str, data: str) -> list[Row]:
    from strom.broker.stored_topics import StoredTopics
    from strom.cli.topics import missing_topic
    from strom.storage.files import DiskFiles
    from strom.storage.retention import deletion_times
    from strom.storage.segment_list import read_segment_list

    files = DiskFiles()
    topics = StoredTopics(files, data)
    topic = topics.find(name)
    if topic is None:
        raise missing_topic(name, topics.names())
    settings, now_ms = topics.settings(topic), SystemClock().now_ms()
    rows: list[Row] = []
    for partition in range(topic.partitions):
        found = read_segment_list(files, f"{data}/{name}-{partition}")
        infos = [each.info for each in found]
        start = topics.start_offset(topic, partition)
        times = deletion_times(infos, settings, log_start_offset=start, now_ms=now_ms)
        for each, deletion_ms in zip(found, times, strict=True):
            rows.append(
                {
                    "partition": partition,
                    "base_offset": each.info.base_offset,
                    "next_offset": each.info.next_offset,
                    "size_bytes": each.info.size_bytes,
                    "index_bytes": each.index_bytes,
                    "active": each.info.active,
                    "youngest_ms": each.info.youngest_ms if each.info.size_bytes else None,
                    "deletion_ms": deletion_ms,
                }
            )
    return rows


def _time(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
