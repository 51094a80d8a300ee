"""The settings of the JdbcSource."""

from collections.abc import Mapping
from dataclasses import dataclass

from strom.connect.api import Importance, Kind, setting
from strom.connect.connectors.databases.connection_settings import DatabaseSettings
from strom.connect.connectors.databases.granularity import CHOICES
from strom.connect.connectors.databases.table_names import tables_setting
from strom.connect.setting_forms import (
    boolean,
    choice,
    integer,
    milliseconds,
    string,
    strings,
)


@dataclass(frozen=True, kw_only=True)
class JdbcSourceSettings(DatabaseSettings):
    """Settings of the JdbcSource, with the names of Confluent's JDBC connector."""

    mode: str = choice(
        "mode",
        "bulk reads all rows repeatedly; incrementing reads new rows by a growing column; "
        "timestamp reads new and updated rows by the time of the update; timestamp+incrementing "
        "uses both.",
        ("bulk", "incrementing", "timestamp", "timestamp+incrementing"),
        "",
        required=True,
    )
    incrementing_column: str | None = string(
        "incrementing.column.name",
        "The column that grows with every row; by default the primary key, if it is a single integer.",
        importance=Importance.HIGH,
    )
    timestamp_columns: tuple[str, ...] = strings(
        "timestamp.column.name",
        "The column with the time of the last update; of several, the first that is not null.",
        importance=Importance.HIGH,
    )
    timestamp_delay_ms: int = milliseconds(
        "timestamp.delay.interval.ms",
        "The minimum age of a row before it is read: longer than any transaction takes.",
        0,
    )
    timestamp_initial: int | None = setting(
        "timestamp.initial",
        Kind.LONG,
        "Where to start, in milliseconds since the epoch; -1: now. By default: at the first row.",
    )
    granularity: str = choice(
        "timestamp.granularity",
        "connect_logical: Connect's timestamps, in milliseconds; the others keep microseconds, as a "
        "number or a string.",
        CHOICES,
    )
    validate_non_null: bool = boolean(
        "validate.non.null",
        "Whether nullable columns are rejected as incrementing or timestamp columns.",
        True,
    )
    whitelist: tuple[str, ...] = tables_setting(
        "table.whitelist",
        "The tables to read, as table or schema.table; empty: all. A name with a comma or dot "
        "is written in double quotes.",
    )
    include: tuple[str, ...] = tables_setting("table.include.list", "An alias of table.whitelist.")
    blacklist: tuple[str, ...] = tables_setting("table.blacklist", "The tables to exclude.")
    exclude: tuple[str, ...] = tables_setting("table.exclude.list", "An alias of table.blacklist.")
    table_types: tuple[str, ...] = setting(
        "table.types",
        Kind.LIST,
        "The types of tables to read if none is configured: TABLE, VIEW.",
        ("TABLE",),
        choices=("TABLE", "VIEW"),
        importance=Importance.LOW,
    )
    query: str | None = string(
        "query", "A SELECT to read instead of tables; the topic is topic.prefix."
    )
    topic_prefix: str = string(
        "topic.prefix",
        "The prefix of topics, followed by the table's name without its schema.",
        "",
        required=True,
    )
    poll_interval_ms: int = integer(
        "poll.interval.ms", "The interval between polls of each table.", 5000
    )
    batch_rows: int = integer("batch.max.rows", "The maximum number of rows per query.", 5000)
    numeric_mapping: str = choice(
        "numeric.mapping",
        "none keeps numeric(p, s) exact; precision_only reads numeric(p) as integers; best_fit "
        "also reads the rest as doubles.",
        ("none", "precision_only", "best_fit", "best_fit_eager_double"),
    )
    tables: tuple[str, ...] = tables_setting(
        "tables",
        "The tables of one task; set by the connector.",
        importance=Importance.LOW,
    )

    @property
    def included(self) -> tuple[str, ...]:
        return (*self.whitelist, *self.include)

    @property
    def excluded(self) -> frozenset[str]:
        return frozenset({*self.blacklist, *self.exclude})

    def validate(self) -> Mapping[str, str]:
        """Mode, query and columns must be consistent."""
        found = dict(super().validate())
        if self.query and (self.included or self.excluded):
            found["query"] = "A query excludes lists of tables; remove them."
        if "timestamp" in self.mode and not self.timestamp_columns:
            found["timestamp.column.name"] = f"mode={self.mode} needs the timestamp column."
        if self.query and "incrementing" in self.mode and not self.incrementing_column:
            found["incrementing.column.name"] = (
                f"With a query, mode={self.mode} needs the incrementing column."
            )
        if self.mode == "bulk" and (self.timestamp_columns or self.incrementing_column):
            found["mode"] = (
                "mode=bulk reads all rows each time and uses no column; use incrementing, "
                "timestamp or timestamp+incrementing."
            )
        return found
