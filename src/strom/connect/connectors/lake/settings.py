"""The settings of the LakeSink."""

from collections.abc import Mapping
from dataclasses import dataclass

from strom.connect.api import ConnectorSettings
from strom.connect.connectors.local_paths import scheme_of
from strom.connect.setting_forms import choice, integer, secret, string, strings

S3_SCHEME = "s3://"
TIME_LEVELS = ("year", "month", "day", "hour")
RECORD_COLUMNS = ("topic", "partition", "offset", "timestamp", "key")


@dataclass(frozen=True, kw_only=True)
class LakeSettings(ConnectorSettings):
    path: str = string(
        "path",
        "The location of the tables: a folder, or s3://BUCKET/PREFIX. Each table is a folder in it.",
        required=True,
    )
    format: str = choice("format", "The format of the tables.", ("parquet", "delta"))
    table_name: str = string(
        "table.name.format", "The table of a topic; ${topic} is its name.", "${topic}"
    )
    time_partition: str = choice(
        "time.partition",
        "Partition tables into folders by time (UTC), down to this level.",
        ("none", *TIME_LEVELS),
    )
    timestamp_field: str | None = string(
        "timestamp.field",
        "The field with the time to partition by: a timestamp, or milliseconds. [the record's timestamp]",
    )
    record_columns: tuple[str, ...] = strings(
        "record.columns",
        "The metadata of the record to store as columns, prefixed by an underscore.",
        choices=RECORD_COLUMNS,
    )
    flush_size: int = integer(
        "flush.size", "Write files after this many records, if not earlier.", 200_000
    )
    on_null: str = choice(
        "behavior.on.null.values", "What to do with records without a value.", ("ignore", "fail")
    )
    compression: str = choice(
        "parquet.codec", "The compression of the files.", ("zstd", "snappy", "gzip", "lz4", "none")
    )
    s3_endpoint: str | None = string(
        "s3.endpoint", "The URL of an S3-compatible store; Amazon's by default."
    )
    s3_region: str = string("s3.region", "The region of the bucket.", "us-east-1")
    s3_access_key: str | None = string(
        "s3.access.key.id", "The access key; by default the credentials of the environment."
    )
    s3_secret_key: str | None = secret("s3.secret.access.key", "The secret of s3.access.key.id.")

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
