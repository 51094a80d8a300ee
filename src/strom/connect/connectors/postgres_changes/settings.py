"""What can be said about following the changes of tables."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from strom.connect.api import ConnectorSettings, Importance, Kind, setting
from strom.connect.connectors.databases.address import POSTGRES, Address
from strom.connect.connectors.postgres_changes.names import (
    LONGEST_TOPIC,
    is_topic,
    parse_list,
)
from strom.model.patterns import compile_pattern

_LONGEST_NAME = 63


@dataclass(frozen=True, kw_only=True)
class PostgresChangesSettings(ConnectorSettings):
    """Settings of PostgresChanges, by the names that Debezium's connector has."""

    host: str = setting("database.hostname", Kind.STRING, "Where the server is.", "", required=True)
    port: int = setting("database.port", Kind.INT, "Its port.", 5432, minimum=1, maximum=65535)
    user: str = setting(
        "database.user",
        Kind.STRING,
        "Who logs in; needs the right to replicate.",
        "",
        required=True,
    )
    password: str | None = setting(
        "database.password",
        Kind.PASSWORD,
        "The user's password, best as a reference such as ${env:NAME}.",
        importance=Importance.HIGH,
    )
    database: str = setting("database.dbname", Kind.STRING, "The database.", "", required=True)
    ssl: str = setting(
        "database.sslmode",
        Kind.STRING,
        "Whether to encrypt, and what to check of the server's certificate. As everywhere with "
        "PostgreSQL, `prefer` encrypts if the server can.",
        "prefer",
        choices=("disable", "prefer", "require", "verify-ca", "verify-full"),
    )
    topic_prefix: str = setting(
        "topic.prefix",
        Kind.STRING,
        "The topic of a table is prefix.schema.table.",
        "",
        required=True,
    )
    include: str = setting(
        "table.include.list",
        Kind.STRING,
        "The tables to follow, as schema.table; regular expressions that fit the whole name, "
        "separated by commas. A comma within one is written as `\\,`.",
        "",
        importance=Importance.HIGH,
    )
    exclude: str = setting(
        "table.exclude.list", Kind.STRING, "Tables not to follow, in the same way.", ""
    )
    key_columns: str = setting(
        "message.key.columns",
        Kind.STRING,
        "Key columns of tables with REPLICA IDENTITY FULL, instead of their primary keys: "
        "schema.table:column,column;schema.table:column. The tables are regular expressions.",
        "",
        importance=Importance.LOW,
    )
    slot: str | None = setting(
        "slot.name",
        Kind.STRING,
        "The replication slot, which holds changes until they are delivered. Default: strom_ and the "
        "prefix.",
    )
    drop_slot: bool = setting(
        "slot.drop.on.stop",
        Kind.BOOLEAN,
        "Whether the slot is dropped when the task stops. Changes after that are not seen; for tests.",
        False,
        importance=Importance.LOW,
    )
    publication: str | None = setting(
        "publication.name", Kind.STRING, "The publication. Default: the slot's name."
    )
    publication_mode: str = setting(
        "publication.autocreate.mode",
        Kind.STRING,
        "filtered makes a publication of the followed tables, all_tables of all; disabled takes the "
        "one that is there.",
        "filtered",
        choices=("filtered", "all_tables", "disabled"),
    )
    plugin: str = setting(
        "plugin.name",
        Kind.STRING,
        "The output plugin; pgoutput is part of every PostgreSQL.",
        "pgoutput",
        choices=("pgoutput",),
        importance=Importance.LOW,
    )
    snapshot_mode: str = setting(
        "snapshot.mode",
        Kind.STRING,
        "initial begins with all rows that are there; no_data (or never) with the next change.",
        "initial",
        choices=("initial", "no_data", "never"),
    )
    fetch_size: int = setting(
        "snapshot.fetch.size", Kind.INT, "Rows to read at once in a snapshot.", 5000, minimum=1
    )
    batch_size: int = setting(
        "max.batch.size", Kind.INT, "About how many records one poll returns.", 5000, minimum=1
    )
    tombstones: bool = setting(
        "tombstones.on.delete",
        Kind.BOOLEAN,
        "Whether a delete is followed by a record without a value, for compacted topics.",
        True,
    )
    unavailable: str = setting(
        "unavailable.value.placeholder",
        Kind.STRING,
        "What stands for a long value that an update did not touch and the server therefore did not "
        "send.",
        "__debezium_unavailable_value",
    )
    numeric_mapping: str = setting(
        "decimal.handling.mode",
        Kind.STRING,
        "precise keeps numeric(p, s) exact; double makes doubles of them.",
        "precise",
        choices=("precise", "double"),
    )
    heartbeat_ms: int = setting(
        "heartbeat.interval.ms",
        Kind.INT,
        "How often a record says how far the change stream is though no row changed; 0 for never.",
        0,
        minimum=0,
    )
    heartbeat_prefix: str = setting(
        "topic.heartbeat.prefix",
        Kind.STRING,
        "The topic of these records is this, a dot and topic.prefix.",
        "__debezium-heartbeat",
    )

    @property
    def slot_name(self) -> str:
        """The slot: the one named, or one after the prefix."""
        usable = re.sub("[^a-z0-9_]", "_", self.topic_prefix.lower())
        return self.slot or f"strom_{usable}"[:_LONGEST_NAME]

    @property
    def publication_name(self) -> str:
        """The publication: the one named, or one of the slot's name."""
        return self.publication or self.slot_name

    @property
    def include_patterns(self) -> tuple[str, ...]:
        """The tables to follow; none for all."""
        return parse_list(self.include)

    @property
    def exclude_patterns(self) -> tuple[str, ...]:
        """The tables not to follow."""
        return parse_list(self.exclude)

    @property
    def chosen_keys(self) -> tuple[tuple[str, frozenset[str]], ...]:
        """Patterns of tables, and the key columns that the user chose for them."""
        items = (item.rpartition(":") for item in self.key_columns.split(";") if item.strip())
        return tuple((table.strip(), frozenset(parse_list(columns))) for table, _, columns in items)

    def address(self) -> Address:
        """The database, and who logs in."""
        return Address(
            POSTGRES, self.host, self.port, self.database, self.user, self.password, self.ssl
        )

    def validate(self) -> Mapping[str, str]:
        """What cannot be a name or a regular expression."""
        found: dict[str, str] = {}
        if not re.fullmatch(f"[a-z0-9_]{{1,{_LONGEST_NAME}}}", self.slot_name):
            found["slot.name"] = (
                f"A slot's name has up to {_LONGEST_NAME} small letters, digits and underscores."
            )
        size = len(self.publication_name.encode())
        if size > _LONGEST_NAME:
            found["publication.name"] = (
                f"The name has {size} bytes, which exceeds PostgreSQL's limit of {_LONGEST_NAME}."
            )
        for name, text in (
            ("topic.prefix", self.topic_prefix),
            ("topic.heartbeat.prefix", self.heartbeat_prefix),
        ):
            if not is_topic(text):
                found[name] = (
                    f"{text} cannot begin a topic's name, which has up to {LONGEST_TOPIC} letters a-z "
                    "and A-Z, digits, dots, underscores and hyphens."
                )
        for name, patterns in (
            ("table.include.list", self.include_patterns),
            ("table.exclude.list", self.exclude_patterns),
            ("message.key.columns", tuple(table for table, _ in self.chosen_keys)),
        ):
            for pattern in patterns:
                try:
                    compile_pattern(pattern)
                except ValueError as error:
                    found[name] = (
                        f"{pattern} is no regular expression: {error}. Characters with a meaning in "
                        "regular expressions need a backslash before them."
                    )
        if not all(table for table, _ in self.chosen_keys):
            found["message.key.columns"] = (
                "It names no table: schema.table:column,column for each, separated by semicolons."
            )
        return found
