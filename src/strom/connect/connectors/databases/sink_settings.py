"""The settings of the JdbcSink."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from strom.connect.api import Importance
from strom.connect.connectors.databases.connection_settings import DatabaseSettings
from strom.connect.connectors.databases.table_names import UnclosedQuote, name_parts
from strom.connect.setting_forms import boolean, choice, integer, string, strings

KAFKA_COLUMNS: Final = ("__connect_topic", "__connect_partition", "__connect_offset")


@dataclass(frozen=True, kw_only=True)
class JdbcSinkSettings(DatabaseSettings):
    """Settings of the JdbcSink, with the names of Confluent's JDBC connector."""

    insert_mode: str = choice(
        "insert.mode",
        "insert adds rows, upsert adds or updates them by their key, update only updates them.",
        ("insert", "upsert", "update"),
        importance=Importance.HIGH,
    )
    key_mode: str = choice(
        "pk.mode",
        "The source of the primary key: none, kafka (topic, partition, offset), record_key or "
        "record_value.",
        ("none", "kafka", "record_key", "record_value"),
        importance=Importance.HIGH,
    )
    key_fields: tuple[str, ...] = strings(
        "pk.fields",
        "The columns of the primary key; empty: all fields of the key or value (pk.mode).",
    )
    delete_enabled: bool = boolean(
        "delete.enabled",
        "Whether a record without a value deletes the row of its key; needs pk.mode=record_key.",
    )
    auto_create: bool = boolean("auto.create", "Whether missing tables are created.")
    auto_evolve: bool = boolean("auto.evolve", "Whether missing columns are added.")
    table_name_format: str = string(
        "table.name.format",
        "The table's name: ${topic} is the topic; a dot in the rest separates schema and table, "
        "unless it is in double quotes.",
        "${topic}",
    )
    fields: tuple[str, ...] = strings(
        "fields.whitelist", "The value's fields to store; empty: all."
    )
    fields_include: tuple[str, ...] = strings("fields.include", "An alias of fields.whitelist.")
    batch_size: int = integer("batch.size", "The maximum number of rows per statement.", 10_000)
    quote_identifiers: str = choice(
        "quote.sql.identifiers",
        "Names of tables and columns are always quoted, so that they are case-sensitive.",
        ("always", "ALWAYS"),
        importance=Importance.LOW,
    )

    @property
    def stored_fields(self) -> frozenset[str]:
        """The value's fields to store; empty: all."""
        return frozenset(self.fields) | frozenset(self.fields_include)

    def validate(self) -> Mapping[str, str]:
        """Modes and keys must be consistent."""
        found = dict(super().validate())
        try:
            name_parts(self.table_name_format)
        except UnclosedQuote:
            found["table.name.format"] = 'A name in quotes is not closed by ".'
        if self.insert_mode != "insert" and self.key_mode == "none":
            found["pk.mode"] = (
                f"insert.mode={self.insert_mode} needs a key to identify rows; set pk.mode to "
                "record_key, record_value or kafka."
            )
        if self.delete_enabled and self.key_mode != "record_key":
            found["delete.enabled"] = (
                "Deleting needs the record's key to identify the row; set pk.mode=record_key."
            )
        if self.key_mode == "kafka" and len(self.key_fields) not in {0, 3}:
            found["pk.fields"] = (
                "pk.mode=kafka needs three columns: for topic, partition and offset."
            )
        if self.key_mode == "none" and self.key_fields:
            found["pk.fields"] = (
                "With pk.mode=none there is no key; remove pk.fields or set pk.mode."
            )
        return found
