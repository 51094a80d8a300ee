"""The settings of MongoSource and MongoSink."""

from collections.abc import Mapping
from dataclasses import dataclass

from strom.connect.api import ConnectorSettings, Importance, Kind, setting


@dataclass(frozen=True, kw_only=True)
class MongoSettings(ConnectorSettings):
    uri: str = setting(
        "connection.uri",
        Kind.PASSWORD,
        "The connection string, such as mongodb://user:password@host:27017/?replicaSet=rs0.",
        "mongodb://127.0.0.1:27017",
        importance=Importance.HIGH,
    )
    database: str = setting("database", Kind.STRING, "The database.", required=True)
    server_timeout_ms: int = setting(
        "server.selection.timeout.ms",
        Kind.INT,
        "The timeout for finding a server.",
        5000,
        minimum=100,
    )

    def validate(self) -> Mapping[str, str]:
        """The connection string must be valid."""
        from pymongo.errors import PyMongoError
        from pymongo.uri_parser import parse_uri

        if self.uri.startswith("mongodb+srv://"):
            return {}  # parsing it needs a DNS lookup
        try:
            parse_uri(self.uri)
        except (PyMongoError, ValueError) as error:
            return {"connection.uri": f"Invalid connection string: {error}"}
        return {}


@dataclass(frozen=True, kw_only=True)
class MongoSourceSettings(MongoSettings):
    collection: str = setting("collection", Kind.STRING, "The collection to read.", required=True)
    topic_prefix: str | None = setting(
        "topic.prefix", Kind.STRING, "The topic is PREFIX.DATABASE.COLLECTION. [no prefix]"
    )
    startup_mode: str = setting(
        "startup.mode",
        Kind.STRING,
        "Where to start: at new changes, or with a copy of all existing documents.",
        "latest",
        choices=("latest", "copy_existing"),
    )
    document_only: bool = setting(
        "publish.full.document.only",
        Kind.BOOLEAN,
        "Send only the document (a tombstone for a deleted one) instead of the change event.",
        False,
    )
    full_document: str = setting(
        "change.stream.full.document",
        Kind.STRING,
        "What the change event of an update contains of the document.",
        "updateLookup",
        choices=("default", "updateLookup", "whenAvailable", "required"),
    )
    batch_size: int = setting(
        "poll.max.batch.size", Kind.INT, "The maximum number of events per poll.", 1000, minimum=1
    )
    await_ms: int = setting(
        "poll.await.time.ms",
        Kind.INT,
        "The maximum time to wait for an event.",
        500,
        minimum=1,
        maximum=1000,
    )

    @property
    def topic(self) -> str:
        parts = (self.topic_prefix, self.database, self.collection)
        return ".".join(part for part in parts if part)


@dataclass(frozen=True, kw_only=True)
class MongoSinkSettings(MongoSettings):
    collection: str = setting(
        "collection",
        Kind.STRING,
        "The collection; ${topic} is the record's topic.",
        "${topic}",
    )
    id_from: str = setting(
        "document.id.from",
        Kind.STRING,
        "The source of a document's _id: the record's key, a field of its value (document.id.field), or "
        "topic, partition and offset.",
        "key",
        choices=("key", "field", "place"),
    )
    id_field: str = setting(
        "document.id.field", Kind.STRING, "The field for document.id.from=field.", "_id"
    )
    delete_on_null: bool = setting(
        "delete.on.null.values",
        Kind.BOOLEAN,
        "Delete the document when a record has no value.",
        False,
    )
    batch_size: int = setting(
        "max.batch.size", Kind.INT, "The maximum number of documents per write.", 1000, minimum=1
    )

    def validate(self) -> Mapping[str, str]:
        """Deleting documents needs keys."""
        if self.delete_on_null and self.id_from != "key":
            return {
                "delete.on.null.values": "A record without a value identifies its "
                "document by its key: set document.id.from=key."
            }
        return super().validate()
