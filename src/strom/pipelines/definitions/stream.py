"""Streams (topics with a schema) and tables (files that do not change while they are read)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from strom.model.errors import ApiError, UserError
from strom.model.topics import check_topic_name
from strom.pipelines.definitions.avro import avro_columns
from strom.pipelines.definitions.place import DefinitionError, Place, calling_place
from strom.pipelines.definitions.types import parse_schema

Format = Literal["json", "csv", "avro", "string", "raw"]
FROM_REGISTRY = "registry"
"""In place of a schema: the one that the registry has."""
RECORD_TIME = "_timestamp"
"""The time that Kafka itself gives a record: the event time of a stream that names none."""
RECORD_COLUMNS: Mapping[str, str] = {
    "_key": "binary",
    "_partition": "int",
    "_offset": "bigint",
    RECORD_TIME: "timestamp",
}
"""Columns that every stream has besides its schema."""
_FIXED_SCHEMAS = {"string": "value STRING", "raw": "value BINARY"}


@dataclass(frozen=True)
class Stream:
    """Records of a topic, read as rows.

    What does not fit the schema, or has no event time, goes to the dead letter topic and is counted.
    """

    topic: str
    schema: str = ""
    """Columns as DDL; of an Avro stream its schema in Avro's JSON, or `registry`."""
    time: str | None = None
    format: Format = "json"
    dead_letters: str | None = None
    """The topic for what is malformed; `TOPIC.dead` unless named."""
    partitions: int = 3
    """With how many partitions the embedded broker creates the topic."""
    subject: str | None = None
    """The registry's name for the schemas of this stream; `TOPIC-value` unless named."""
    version: int | None = None
    """Which of them rows are read as; the latest one unless named."""
    registry: str | None = None
    """The registry whose schema ids stand before each record; from `strom.toml` unless named."""
    place: Place | None = field(default_factory=calling_place, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.format not in get_args(Format):
            known = ", ".join(get_args(Format))
            raise DefinitionError(self.place, f"There is no format {self.format!r}: {known}.")
        self._check_topics()
        fixed = _FIXED_SCHEMAS.get(self.format)
        if fixed and self.schema:
            raise DefinitionError(
                self.place, f"Format {self.format} has the one column `{fixed}`: leave out schema."
            )
        if not fixed and not self.schema:
            raise DefinitionError(
                self.place, f"Stream {self.topic!r} has no schema, as in: user STRING, ms INT"
            )
        if self.format != "avro" and (self.registry or self.version or self.subject):
            raise DefinitionError(
                self.place,
                f"Only Avro streams have a registry, and {self.topic!r} is {self.format}.",
            )
        if not self.resolved:
            return  # checked again when the registry has told the schema
        columns = self.columns
        if self.time is not None and columns.get(self.time) not in {"timestamp", "timestamp_ntz"}:
            has = f"is {columns[self.time]}" if self.time in columns else "is not in its schema"
            raise DefinitionError(
                self.place,
                f"The time of stream {self.topic!r} must be a TIMESTAMP; {self.time} {has}.",
            )

    def _check_topics(self) -> None:
        for topic in (self.topic, self.dead_letter_topic):
            try:
                check_topic_name(topic)
            except ApiError as error:
                raise DefinitionError(self.place, f"{topic!r} is no topic: {error}") from None
        if self.dead_letter_topic == self.topic:
            raise DefinitionError(
                self.place,
                f"Dead letters of {self.topic!r} would go round in a circle; name another.",
            )
        if self.partitions < 1:
            raise DefinitionError(self.place, f"Topic {self.topic!r} needs at least one partition.")

    @property
    def columns(self) -> dict[str, str]:
        """The columns of the rows with their types, those of the record included."""
        try:
            if self.format == "avro":
                return {**avro_columns(self.schema), **RECORD_COLUMNS}
            return {**parse_schema(self.ddl), **RECORD_COLUMNS}
        except UserError as error:
            raise DefinitionError(self.place, str(error)) from None

    @property
    def resolved(self) -> bool:
        """Whether the columns are known; if not, the registry must be asked first."""
        return not (self.format == "avro" and self.schema == FROM_REGISTRY)

    @property
    def value_subject(self) -> str:
        """The registry's name for the schemas of this stream."""
        return self.subject or f"{self.topic}-value"

    @property
    def ddl(self) -> str:
        """The schema as DDL."""
        return _FIXED_SCHEMAS.get(self.format, self.schema)

    @property
    def event_time(self) -> str:
        """The column that says when something happened."""
        return self.time or RECORD_TIME

    @property
    def dead_letter_topic(self) -> str:
        """Where malformed records go."""
        return self.dead_letters or f"{self.topic}.dead"

    @property
    def dead_letter_view(self) -> str:
        """The view in which malformed records can be queried."""
        return f"{self.topic}_dead_letters".replace(".", "_").replace("-", "_")


@dataclass(frozen=True)
class Table:
    """A static table to join with, read from a file or folder beside the project."""

    path: str
    schema: str = ""
    format: Literal["csv", "json", "parquet"] = "csv"
    content: str = ""
    """A hash of its files; a version of a view reads those that it was made with."""
    copy: str = field(default="", compare=False, repr=False)
    """Where files of that content are kept."""
    place: Place | None = field(default_factory=calling_place, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.format != "parquet" and not self.schema:
            raise DefinitionError(
                self.place,
                f"Table {self.path!r} has no schema; only Parquet files bring their own.",
            )
        if self.schema:
            try:
                parse_schema(self.schema)
            except UserError as error:
                raise DefinitionError(self.place, str(error)) from None
