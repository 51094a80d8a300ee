"""Streams (topics with a schema) and tables (files that do not change while they are read)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from strom.model.errors import ApiError, UserError
from strom.model.topics import check_topic_name
from strom.pipelines.definitions.avro import avro_columns
from strom.pipelines.definitions.place import DefinitionError, SourceLocation, calling_place
from strom.pipelines.definitions.types import parse_schema

Format = Literal["json", "csv", "avro", "string", "raw"]
FROM_REGISTRY = "registry"
"""In place of a schema: the one in the registry."""
RECORD_TIME = "_timestamp"
"""Kafka's timestamp of a record: the event time of a stream without a time column."""
RECORD_COLUMNS: Mapping[str, str] = {
    "_key": "binary",
    "_partition": "int",
    "_offset": "bigint",
    RECORD_TIME: "timestamp",
}
"""The columns that every stream has besides its schema."""
_FIXED_SCHEMAS = {"string": "value STRING", "raw": "value BINARY"}


@dataclass(frozen=True)
class Stream:
    """Records of a topic, read as rows.

    Records that do not match the schema, or have no event time, go to the dead letter topic and are
    counted.
    """

    topic: str
    schema: str = ""
    """The columns as DDL; for an Avro stream its schema in Avro's JSON, or `registry`."""
    time: str | None = None
    format: Format = "json"
    dead_letters: str | None = None
    """The topic for malformed records; `TOPIC.dead` by default."""
    partitions: int = 3
    """The number of partitions with which the embedded broker creates the topic."""
    subject: str | None = None
    """The registry's subject of this stream; `TOPIC-value` by default."""
    version: int | None = None
    """The version of the subject that rows are read as; the latest by default."""
    registry: str | None = None
    """The registry of the schema ids in the records; by default that of `strom.toml`."""
    place: SourceLocation | None = field(default_factory=calling_place, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.format not in get_args(Format):
            known = ", ".join(get_args(Format))
            raise DefinitionError(
                self.place, f"Unknown format {self.format!r}: use one of {known}."
            )
        self._check_topics()
        fixed = _FIXED_SCHEMAS.get(self.format)
        if fixed and self.schema:
            raise DefinitionError(
                self.place, f"Format {self.format} has the single column `{fixed}`: omit schema."
            )
        if not fixed and not self.schema:
            raise DefinitionError(
                self.place, f"Stream {self.topic!r} has no schema, such as: user STRING, ms INT"
            )
        if self.format != "avro" and (self.registry or self.version or self.subject):
            raise DefinitionError(
                self.place,
                f"Only Avro streams have a registry, but {self.topic!r} is {self.format}.",
            )
        if not self.resolved:
            return  # checked again when the registry has returned the schema
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
                raise DefinitionError(
                    self.place, f"Invalid topic name {topic!r}: {error}"
                ) from None
        if self.dead_letter_topic == self.topic:
            raise DefinitionError(
                self.place,
                f"The dead letter topic must not be the topic itself: {self.topic!r}.",
            )
        if self.partitions < 1:
            raise DefinitionError(self.place, f"Topic {self.topic!r} needs at least one partition.")

    @property
    def columns(self) -> dict[str, str]:
        """The columns of the rows with their types, including those of the record."""
        try:
            if self.format == "avro":
                return {**avro_columns(self.schema), **RECORD_COLUMNS}
            return {**parse_schema(self.ddl), **RECORD_COLUMNS}
        except UserError as error:
            raise DefinitionError(self.place, str(error)) from None

    @property
    def resolved(self) -> bool:
        """Whether the columns are known; if not, the registry is needed first."""
        return not (self.format == "avro" and self.schema == FROM_REGISTRY)

    @property
    def value_subject(self) -> str:
        """The registry's subject of this stream."""
        return self.subject or f"{self.topic}-value"

    @property
    def ddl(self) -> str:
        """The schema of the stream as DDL."""
        return _FIXED_SCHEMAS.get(self.format, self.schema)

    @property
    def event_time(self) -> str:
        """The column with the event time."""
        return self.time or RECORD_TIME

    @property
    def dead_letter_topic(self) -> str:
        """The topic for malformed records."""
        return self.dead_letters or f"{self.topic}.dead"

    @property
    def dead_letter_view(self) -> str:
        """The name of the view of malformed records."""
        return f"{self.topic}_dead_letters".replace(".", "_").replace("-", "_")


@dataclass(frozen=True)
class Table:
    """A static table to join with, read from a file or folder beside the project."""

    path: str
    schema: str = ""
    format: Literal["csv", "json", "parquet"] = "csv"
    content: str = ""
    """A hash of its files; a version of a view reads the files that it was computed with."""
    copy: str = field(default="", compare=False, repr=False)
    """The path of a copy of these files."""
    place: SourceLocation | None = field(default_factory=calling_place, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.format != "parquet" and not self.schema:
            raise DefinitionError(
                self.place,
                f"Table {self.path!r} has no schema; only Parquet files contain one.",
            )
        if self.schema:
            try:
                parse_schema(self.schema)
            except UserError as error:
                raise DefinitionError(self.place, str(error)) from None
