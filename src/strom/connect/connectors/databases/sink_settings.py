"""What can be said about carrying records into tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from strom.connect.api import Importance, Kind, setting
from strom.connect.connectors.databases.connection_settings import ConnectionSettings
from strom.connect.connectors.databases.table_names import UnclosedQuote, name_parts

KAFKA_COLUMNS: Final = ("__connect_topic", "__connect_partition", "__connect_offset")


@dataclass(frozen=True, kw_only=True)
class JdbcSinkSettings(ConnectionSettings):
    """Settings of JdbcSink, by the names that Confluent's JDBC connector has."""

    insert_mode: str = setting(
        "insert.mode",
        Kind.STRING,
        "insert adds rows, upsert adds or changes them by their key, update only changes them.",
        "insert",
        choices=("insert", "upsert", "update"),
        importance=Importance.HIGH,
    )
    key_mode: str = setting(
        "pk.mode",
        Kind.STRING,
        "Where the primary key comes from: none, kafka (topic, partition, offset), record_key or "
        "record_value.",
        "none",
        choices=("none", "kafka", "record_key", "record_value"),
        importance=Importance.HIGH,
    )
    key_fields: tuple[str, ...] = setting(
        "pk.fields",
        Kind.LIST,
        "The columns of the primary key; empty takes all fields of what pk.mode names.",
        (),
    )
    delete_enabled: bool = setting(
        "delete.enabled",
        Kind.BOOLEAN,
        "Whether a record without a value deletes the row of its key; needs pk.mode=record_key.",
        False,
    )
    auto_create: bool = setting(
        "auto.create", Kind.BOOLEAN, "Whether tables that are not there are created.", False
    )
    auto_evolve: bool = setting(
        "auto.evolve", Kind.BOOLEAN, "Whether columns that are not there are added.", False
    )
    table_name_format: str = setting(
        "table.name.format",
        Kind.STRING,
        "The table's name: ${topic} stands for the topic; a dot in the rest parts schema and table, "
        "unless it is in double quotes.",
        "${topic}",
    )
    fields: tuple[str, ...] = setting(
        "fields.whitelist", Kind.LIST, "The value's fields to store; empty stores all.", ()
    )
    fields_include: tuple[str, ...] = setting(
        "fields.include", Kind.LIST, "Another name of fields.whitelist.", ()
    )
    batch_size: int = setting(
        "batch.size", Kind.INT, "Most rows in one statement.", 10_000, minimum=1
    )
    quote_identifiers: str = setting(
        "quote.sql.identifiers",
        Kind.STRING,
        "Names of tables and columns are always quoted, so that they are taken literally.",
        "always",
        choices=("always", "ALWAYS"),
        importance=Importance.LOW,
    )

    @property
    def stored_fields(self) -> frozenset[str]:
        """The value's fields to store; empty for all."""
        return frozenset(self.fields) | frozenset(self.fields_include)

    def validate(self) -> Mapping[str, str]:
        """Which settings do not go together."""
        found = dict(super().validate())
        try:
            name_parts(self.table_name_format)
        except UnclosedQuote:
            found["table.name.format"] = 'A name in quotes is not closed by ".'
        if self.insert_mode != "insert" and self.key_mode == "none":
            found["pk.mode"] = (
                f"insert.mode={self.insert_mode} needs a key to find rows by; set pk.mode to "
                "record_key, record_value or kafka."
            )
        if self.delete_enabled and self.key_mode != "record_key":
            found["delete.enabled"] = (
                "Deleting needs the record's key to find the row by; set pk.mode=record_key."
            )
        if self.key_mode == "kafka" and len(self.key_fields) not in {0, 3}:
            found["pk.fields"] = (
                "With pk.mode=kafka there are three columns: for topic, partition and offset."
            )
        if self.key_mode == "none" and self.key_fields:
            found["pk.fields"] = (
                "With pk.mode=none there is no key; remove pk.fields or set pk.mode."
            )
        return found
