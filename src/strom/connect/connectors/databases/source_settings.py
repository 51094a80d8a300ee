"""What can be said about reading tables."""

from collections.abc import Mapping
from dataclasses import dataclass

from strom.connect.api import Importance, Kind, setting
from strom.connect.connectors.databases.connection_settings import ConnectionSettings
from strom.connect.connectors.databases.granularity import CHOICES, LOGICAL
from strom.connect.connectors.databases.table_names import tables_setting


@dataclass(frozen=True, kw_only=True)
class JdbcSourceSettings(ConnectionSettings):
    """Settings of JdbcSource, by the names that Confluent's JDBC connector has."""

    mode: str = setting(
        "mode",
        Kind.STRING,
        "bulk reads everything again and again; incrementing reads new rows by a growing column; "
        "timestamp new and changed ones by the time of change; timestamp+incrementing by both.",
        "",
        required=True,
        choices=("bulk", "incrementing", "timestamp", "timestamp+incrementing"),
    )
    incrementing_column: str | None = setting(
        "incrementing.column.name",
        Kind.STRING,
        "The column that grows with every row; the primary key if it is one whole number.",
        importance=Importance.HIGH,
    )
    timestamp_columns: tuple[str, ...] = setting(
        "timestamp.column.name",
        Kind.LIST,
        "The column with the time of the last change; of several, the first that is not null.",
        (),
        importance=Importance.HIGH,
    )
    timestamp_delay_ms: int = setting(
        "timestamp.delay.interval.ms",
        Kind.LONG,
        "How far back a time must lie before its row is read: longer than any transaction takes.",
        0,
        minimum=0,
    )
    timestamp_initial: int | None = setting(
        "timestamp.initial",
        Kind.LONG,
        "Where to begin, in milliseconds since 1970; -1 begins now. Without it: with the first row.",
    )
    granularity: str = setting(
        "timestamp.granularity",
        Kind.STRING,
        "connect_logical: Connect's timestamps, to the millisecond; the others keep microseconds, as a "
        "number or a text.",
        LOGICAL,
        choices=CHOICES,
    )
    validate_non_null: bool = setting(
        "validate.non.null",
        Kind.BOOLEAN,
        "Whether columns that can be null are refused as incrementing or timestamp columns.",
        True,
    )
    whitelist: tuple[str, ...] = tables_setting(
        "table.whitelist",
        "The tables to read, as table or schema.table; empty for all. A name with a comma or dot in it "
        "is written in double quotes.",
    )
    include: tuple[str, ...] = tables_setting(
        "table.include.list", "Another name of table.whitelist."
    )
    blacklist: tuple[str, ...] = tables_setting("table.blacklist", "Tables not to read.")
    exclude: tuple[str, ...] = tables_setting(
        "table.exclude.list", "Another name of table.blacklist."
    )
    table_types: tuple[str, ...] = setting(
        "table.types",
        Kind.LIST,
        "What to read where no table is named: TABLE, VIEW.",
        ("TABLE",),
        choices=("TABLE", "VIEW"),
        importance=Importance.LOW,
    )
    query: str | None = setting(
        "query",
        Kind.STRING,
        "A SELECT to read instead of tables; its rows go to the topic topic.prefix.",
    )
    topic_prefix: str = setting(
        "topic.prefix",
        Kind.STRING,
        "The topic of a table is this and the table's name, without its schema.",
        "",
        required=True,
    )
    poll_interval_ms: int = setting(
        "poll.interval.ms", Kind.INT, "How often each table is looked at.", 5000, minimum=1
    )
    batch_rows: int = setting(
        "batch.max.rows", Kind.INT, "Most rows to read at once.", 5000, minimum=1
    )
    numeric_mapping: str = setting(
        "numeric.mapping",
        Kind.STRING,
        "none keeps numeric(p, s) exact; precision_only makes whole numbers of numeric(p); best_fit "
        "also makes doubles of the rest.",
        "none",
        choices=("none", "precision_only", "best_fit", "best_fit_eager_double"),
    )
    tables: tuple[str, ...] = tables_setting(
        "tables",
        "The tables of one task; set by the connector itself.",
        importance=Importance.LOW,
    )

    @property
    def included(self) -> tuple[str, ...]:
        """The tables that the user has named."""
        return (*self.whitelist, *self.include)

    @property
    def excluded(self) -> frozenset[str]:
        """The tables that the user does not want."""
        return frozenset({*self.blacklist, *self.exclude})

    def validate(self) -> Mapping[str, str]:
        """Which settings do not go together."""
        found = dict(super().validate())
        if self.query and (self.included or self.excluded):
            found["query"] = "A query is read instead of tables; remove the lists of tables."
        if "timestamp" in self.mode and not self.timestamp_columns:
            found["timestamp.column.name"] = f"mode={self.mode} needs the column with the time."
        if self.query and "incrementing" in self.mode and not self.incrementing_column:
            found["incrementing.column.name"] = f"With a query, mode={self.mode} needs the column."
        if self.mode == "bulk" and (self.timestamp_columns or self.incrementing_column):
            found["mode"] = (
                "mode=bulk reads everything each time and uses no column; take incrementing, "
                "timestamp or timestamp+incrementing."
            )
        return found
