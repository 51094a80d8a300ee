"""Settings of the PostgresChanges source."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from strom.connect.api import ConnectorSettings, Importance
from strom.connect.connectors.databases.address import POSTGRES, Address
from strom.connect.connectors.postgres_changes.names import (
    MAX_TOPIC_LENGTH,
    is_topic_name,
    parse_list,
)
from strom.connect.setting_forms import boolean, choice, integer, secret, string
from strom.model.patterns import compile_pattern

_MAX_NAME_BYTES = 63


@dataclass(frozen=True, kw_only=True)
class PostgresChangesSettings(ConnectorSettings):
    """Settings of PostgresChanges, by the names that Debezium's connector has."""

    host: str = string("database.hostname", "The host of the server.", "", required=True)
    port: int = integer("database.port", "The port of the server.", 5432, maximum=65535)
    user: str = string(
        "database.user", "The user, which needs the REPLICATION attribute.", "", required=True
    )
    password: str | None = secret(
        "database.password",
        "The user's password, best as a reference such as ${env:NAME}.",
        importance=Importance.HIGH,
    )
    database: str = string("database.dbname", "The database.", "", required=True)
    ssl: str = choice(
        "database.sslmode",
        "Whether to encrypt, and how to verify the server's certificate. As with libpq, `prefer` "
        "encrypts if the server offers TLS.",
        ("disable", "prefer", "require", "verify-ca", "verify-full"),
        "prefer",
    )
    topic_prefix: str = string(
        "topic.prefix", "The topic of a table is prefix.schema.table.", "", required=True
    )
    include: str = string(
        "table.include.list",
        "The tables to follow, as schema.table; regular expressions that match the whole name, "
        "separated by commas. A comma within one is written as `\\,`.",
        "",
        importance=Importance.HIGH,
    )
    exclude: str = string("table.exclude.list", "Tables to exclude, in the same syntax.", "")
    key_columns: str = string(
        "message.key.columns",
        "Key columns of tables with REPLICA IDENTITY FULL, instead of their primary keys: "
        "schema.table:column,column;schema.table:column. The tables are regular expressions.",
        "",
        importance=Importance.LOW,
    )
    slot: str | None = string(
        "slot.name",
        "The replication slot, which keeps changes until they are delivered. Default: strom_ and the "
        "prefix.",
    )
    drop_slot: bool = boolean(
        "slot.drop.on.stop",
        "Whether to drop the slot when the task stops. Later changes are missed; for tests.",
        importance=Importance.LOW,
    )
    publication: str | None = string(
        "publication.name", "The publication. Default: the slot's name."
    )
    publication_mode: str = choice(
        "publication.autocreate.mode",
        "filtered creates a publication of the followed tables, all_tables one of all tables; disabled "
        "uses the existing one.",
        ("filtered", "all_tables", "disabled"),
    )
    plugin: str = choice(
        "plugin.name",
        "The output plugin; pgoutput is part of every PostgreSQL.",
        ("pgoutput",),
        importance=Importance.LOW,
    )
    snapshot_mode: str = choice(
        "snapshot.mode",
        "initial starts with a snapshot of all rows; no_data (or never) with the next change.",
        ("initial", "no_data", "never"),
    )
    fetch_size: int = integer(
        "snapshot.fetch.size", "The number of rows per fetch in a snapshot.", 5000
    )
    batch_size: int = integer("max.batch.size", "About how many records one poll returns.", 5000)
    tombstones: bool = boolean(
        "tombstones.on.delete",
        "Whether a delete is followed by a tombstone, for compacted topics.",
        True,
    )
    unavailable: str = string(
        "unavailable.value.placeholder",
        "The placeholder for an unchanged TOAST value, which the server does not send with an update.",
        "__debezium_unavailable_value",
    )
    numeric_mapping: str = choice(
        "decimal.handling.mode",
        "precise keeps numeric(p, s) exact; double converts them to doubles.",
        ("precise", "double"),
    )
    heartbeat_ms: int = integer(
        "heartbeat.interval.ms",
        "How often a heartbeat record stores the position while no followed row changes; 0 for never.",
        0,
        minimum=0,
    )
    heartbeat_prefix: str = string(
        "topic.heartbeat.prefix",
        "The topic of heartbeat records is this prefix, a dot and topic.prefix.",
        "__debezium-heartbeat",
    )

    @property
    def slot_name(self) -> str:
        """The configured slot, or one named after the prefix."""
        usable = re.sub("[^a-z0-9_]", "_", self.topic_prefix.lower())
        return self.slot or f"strom_{usable}"[:_MAX_NAME_BYTES]

    @property
    def publication_name(self) -> str:
        """The configured publication, or one with the slot's name."""
        return self.publication or self.slot_name

    @property
    def include_patterns(self) -> tuple[str, ...]:
        """The tables to follow; empty for all."""
        return parse_list(self.include)

    @property
    def exclude_patterns(self) -> tuple[str, ...]:
        return parse_list(self.exclude)

    @property
    def chosen_keys(self) -> tuple[tuple[str, frozenset[str]], ...]:
        """Patterns of tables, and the key columns that the user chose for them."""
        items = (item.rpartition(":") for item in self.key_columns.split(";") if item.strip())
        return tuple((table.strip(), frozenset(parse_list(columns))) for table, _, columns in items)

    def address(self) -> Address:
        """The database's address with the credentials."""
        return Address(
            POSTGRES, self.host, self.port, self.database, self.user, self.password, self.ssl
        )

    def validate(self) -> Mapping[str, str]:
        found: dict[str, str] = {}
        if not re.fullmatch(f"[a-z0-9_]{{1,{_MAX_NAME_BYTES}}}", self.slot_name):
            found["slot.name"] = (
                f"A slot's name has at most {_MAX_NAME_BYTES} lower-case letters, digits and underscores."
            )
        size = len(self.publication_name.encode())
        if size > _MAX_NAME_BYTES:
            found["publication.name"] = (
                f"The name has {size} bytes, which exceeds PostgreSQL's limit of {_MAX_NAME_BYTES}."
            )
        for name, text in (
            ("topic.prefix", self.topic_prefix),
            ("topic.heartbeat.prefix", self.heartbeat_prefix),
        ):
            if not is_topic_name(text):
                found[name] = (
                    f"{text} cannot begin a topic name, which has at most {MAX_TOPIC_LENGTH} letters a-z "
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
                        f"{pattern} is not a regular expression: {error}. Escape characters with a "
                        "meaning in regular expressions with a backslash."
                    )
        if not all(table for table, _ in self.chosen_keys):
            found["message.key.columns"] = (
                "An item names no table: write schema.table:column,column, separated by semicolons."
            )
        return found
