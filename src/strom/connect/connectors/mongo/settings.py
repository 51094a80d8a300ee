"""What both directions say about a MongoDB."""

from collections.abc import Mapping
from dataclasses import dataclass

from strom.connect.api import ConnectorSettings, Importance, Kind, setting


@dataclass(frozen=True, kw_only=True)
class MongoSettings(ConnectorSettings):
    uri: str = setting(
        "connection.uri",
        Kind.PASSWORD,
        "The server, as in mongodb://user:password@host:27017/?replicaSet=rs0.",
        "mongodb://127.0.0.1:27017",
        importance=Importance.HIGH,
    )
    database: str = setting("database", Kind.STRING, "The database.", required=True)
    server_timeout_ms: int = setting(
        "server.selection.timeout.ms",
        Kind.INT,
        "How long to look for a server before it counts as away.",
        5000,
        minimum=100,
    )

    def validate(self) -> Mapping[str, str]:
        """See that the address is one."""
        from pymongo.errors import PyMongoError
        from pymongo.uri_parser import parse_uri

        if self.uri.startswith("mongodb+srv://"):
            return {}  # would ask a name server
        try:
            parse_uri(self.uri)
        except (PyMongoError, ValueError) as error:
            return {"connection.uri": f"It is no address of a MongoDB: {error}"}
        return {}


@dataclass(frozen=True, kw_only=True)
class MongoSourceSettings(MongoSettings):
    collection: str = setting("collection", Kind.STRING, "The collection to follow.", required=True)
    topic_prefix: str | None = setting(
        "topic.prefix", Kind.STRING, "The topic is PREFIX.DATABASE.COLLECTION. [no prefix]"
    )
    startup_mode: str = setting(
        "startup.mode",
        Kind.STRING,
        "Where to begin: with changes from now on, or with all that is there.",
        "latest",
        choices=("latest", "copy_existing"),
    )
    document_only: bool = setting(
        "publish.full.document.only",
        Kind.BOOLEAN,
        "Send the document alone, and nothing for a deleted one, instead of the whole event.",
        False,
    )
    full_document: str = setting(
        "change.stream.full.document",
        Kind.STRING,
        "What the event of an update holds of the document.",
        "updateLookup",
        choices=("default", "updateLookup", "whenAvailable", "required"),
    )
    batch_size: int = setting(
        "poll.max.batch.size", Kind.INT, "Events to take at once.", 1000, minimum=1
    )
    await_ms: int = setting(
        "poll.await.time.ms",
        Kind.INT,
        "How long to wait for an event.",
        500,
        minimum=1,
        maximum=1000,
    )

    @property
    def topic(self) -> str:
        """Where the records go."""
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
        "What a document's _id is: the record's key, a field of its value (document.id.field), or its "
        "place in the topic.",
        "key",
        choices=("key", "field", "place"),
    )
    id_field: str = setting(
        "document.id.field", Kind.STRING, "The field that document.id.from=field takes.", "_id"
    )
    delete_on_null: bool = setting(
        "delete.on.null.values",
        Kind.BOOLEAN,
        "Delete the document when a record has no value.",
        False,
    )
    batch_size: int = setting(
        "max.batch.size", Kind.INT, "Documents to write at once.", 1000, minimum=1
    )

    def validate(self) -> Mapping[str, str]:
        """Say which settings do not go together."""
        if self.delete_on_null and self.id_from != "key":
            return {
                "delete.on.null.values": "A record without a value has only a key to find its "
                "document by: set document.id.from=key."
            }
        return super().validate()
