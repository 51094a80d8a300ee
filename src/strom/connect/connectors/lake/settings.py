"""The settings of the LakeSink."""

from collections.abc import Mapping
from dataclasses import dataclass

from strom.connect.api import ConnectorSettings, Kind, setting
from strom.connect.connectors.local_paths import scheme_of

S3_SCHEME = "s3://"
TIME_LEVELS = ("year", "month", "day", "hour")
RECORD_COLUMNS = ("topic", "partition", "offset", "timestamp", "key")


@dataclass(frozen=True, kw_only=True)
class LakeSettings(ConnectorSettings):
    path: str = setting(
        "path",
        Kind.STRING,
        "The location of the tables: a folder, or s3://BUCKET/PREFIX. Each table is a folder in it.",
        required=True,
    )
    format: str = setting(
        "format", Kind.STRING, "The format of the tables.", "parquet", choices=("parquet", "delta")
    )
    table_name: str = setting(
        "table.name.format", Kind.STRING, "The table of a topic; ${topic} is its name.", "${topic}"
    )
    time_partition: str = setting(
        "time.partition",
        Kind.STRING,
        "Partition tables into folders by time (UTC), down to this level.",
        "none",
        choices=("none", *TIME_LEVELS),
    )
    timestamp_field: str | None = setting(
        "timestamp.field",
        Kind.STRING,
        "The field with the time to partition by: a timestamp, or milliseconds. [the record's timestamp]",
    )
    record_columns: tuple[str, ...] = setting(
        "record.columns",
        Kind.LIST,
        "The metadata of the record to store as columns, prefixed by an underscore.",
        (),
        choices=RECORD_COLUMNS,
    )
    flush_size: int = setting(
        "flush.size",
        Kind.INT,
        "Write files after this many records, if not earlier.",
        200_000,
        minimum=1,
    )
    on_null: str = setting(
        "behavior.on.null.values",
        Kind.STRING,
        "What to do with records without a value.",
        "ignore",
        choices=("ignore", "fail"),
    )
    compression: str = setting(
        "parquet.codec",
        Kind.STRING,
        "The compression of the files.",
        "zstd",
        choices=("zstd", "snappy", "gzip", "lz4", "none"),
    )
    s3_endpoint: str | None = setting(
        "s3.endpoint", Kind.STRING, "The URL of an S3-compatible store; Amazon's by default."
    )
    s3_region: str = setting("s3.region", Kind.STRING, "The region of the bucket.", "us-east-1")
    s3_access_key: str | None = setting(
        "s3.access.key.id",
        Kind.STRING,
        "The access key; by default the credentials of the environment.",
    )
    s3_secret_key: str | None = setting(
        "s3.secret.access.key", Kind.PASSWORD, "The secret of s3.access.key.id."
    )

    @property
    def levels(self) -> tuple[str, ...]:
        """The time levels that tables are partitioned by."""
        if self.time_partition == "none":
            return ()
        return TIME_LEVELS[: TIME_LEVELS.index(self.time_partition) + 1]

    def validate(self) -> Mapping[str, str]:
        """The path's scheme must be supported, and settings must not be without effect."""
        found = {}
        scheme = scheme_of(self.path)
        if scheme is not None and not self.path.startswith(S3_SCHEME):
            found["path"] = (
                f"The scheme {scheme}: of {self.path} is not supported. Supported are the path of a "
                f"local folder, without a scheme, and {S3_SCHEME}BUCKET/PREFIX."
            )
        if self.timestamp_field and self.time_partition == "none":
            found["timestamp.field"] = "It has no effect without time.partition: set that, too."
        if (self.s3_access_key is None) != (self.s3_secret_key is None):
            found["s3.access.key.id"] = "Set both s3.access.key.id and s3.secret.access.key."
        if self.s3_endpoint and not self.path.startswith(S3_SCHEME):
            found["s3.endpoint"] = f"It has no effect unless path begins with {S3_SCHEME}."
        return found
