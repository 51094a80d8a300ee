"""The settings of MongoSource and MongoSink."""

from collections.abc import Mapping
from dataclasses import dataclass

from strom.connect.api import ConnectorSettings, Importance
from strom.connect.connectors.setting_forms import boolean, choice, integer, secret, string


@dataclass(frozen=True, kw_only=True)
class MongoSettings(ConnectorSettings):
    uri: str = secret(
        "connection.uri",
        "The connection string, such as mongodb://user:password@host:27017/?replicaSet=rs0.",
        "mongodb://127.0.0.1:27017",
        importance=Importance.HIGH,
    )
    database: str = string("database", "The database.", required=True)
    server_timeout_ms: int = integer(
        "server.selection.timeout.ms", "The timeout for finding a server.", 5000, minimum=100
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
    collection: str = string("collection", "The collection to read.", required=True)
    topic_prefix: str | None = string(
        "topic.prefix", "The topic is PREFIX.DATABASE.COLLECTION. [no prefix]"
    )
    startup_mode: str = choice(
        "startup.mode",
        "Where to start: at new changes, or with a copy of all existing documents.",
        ("latest", "copy_existing"),
    )
    document_only: bool = boolean(
        "publish.full.document.only",
        "Send only the document (a tombstone for a deleted one) instead of the change event.",
    )
    full_document: str = choice(
        "change.stream.full.document",
        "What the change event of an update contains of the document.",
        ("default", "updateLookup", "whenAvailable", "required"),
        "updateLookup",
    )
    batch_size: int = integer("poll.max.batch.size", "The maximum number of events per poll.", 1000)
    await_ms: int = integer(
        "poll.await.time.ms", "The maximum time to wait for an event.", 500, maximum=1000
    )

    @property
    def topic(self) -> str:
        parts = (self.topic_prefix, self.database, self.collection)
        return ".".join(part for part in parts if part)


@dataclass(frozen=True, kw_only=True)
class MongoSinkSettings(MongoSettings):
    collection: str = string(
        "collection", "The collection; ${topic} is the record's topic.", "${topic}"
    )
    id_from: str = choice(
        "document.id.from",
        "The source of a document's _id: the record's key, a field of its value (document.id.field), or "
        "topic, partition and offset.",
        ("key", "field", "place"),
    )
    id_field: str = string("document.id.field", "The field for document.id.from=field.", "_id")
    delete_on_null: bool = boolean(
        "delete.on.null.values", "Delete the document when a record has no value."
    )
    batch_size: int = integer("max.batch.size", "The maximum number of documents per write.", 1000)

    def validate(self) -> Mapping[str, str]:
        """Deleting documents needs keys."""
        if self.delete_on_null and self.id_from != "key":
            return {
                "delete.on.null.values": "A record without a value identifies its "
                "document by its key: set document.id.from=key."
            }
        return super().validate()
