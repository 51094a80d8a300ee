"""The settings of topics, with Kafka's names and defaults."""

from dataclasses import dataclass

from strom.model.settings import (
    DAY_MS,
    GIB,
    HOUR_MS,
    INT_MAX,
    KIB,
    LONG_MAX,
    MIB,
    MINUTE_MS,
    Kind,
    Settings,
    dynamic,
)

COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")


@dataclass(frozen=True, kw_only=True)
class TopicSettings(Settings):
    """How one topic stores its records. Change one with `strom topics alter TOPIC name=value`."""

    cleanup_policy: tuple[str, ...] = dynamic(
        "cleanup.policy",
        ("delete",),
        "What happens to old records: `delete` drops whole segments by age and size, `compact` keeps "
        "the last value of every key, `compact,delete` does both.",
        choices=("compact", "delete"),
        broker_name="log.cleanup.policy",
    )
    compression_type: str = dynamic(
        "compression.type",
        "producer",
        "The codec of stored batches. `producer` keeps what the producer sent, byte for byte.",
        choices=COMPRESSION_TYPES,
        broker_name="compression.type",
    )
    delete_retention_ms: int = dynamic(
        "delete.retention.ms",
        DAY_MS,
        "How long a tombstone (a record without a value) stays readable in a compacted topic after "
        "compaction has reached it.",
        kind=Kind.LONG,
        minimum=0,
        broker_name="log.cleaner.delete.retention.ms",
    )
    file_delete_delay_ms: int = dynamic(
        "file.delete.delay.ms",
        MINUTE_MS,
        "How long the files of deleted segments stay on disk.",
        kind=Kind.LONG,
        minimum=0,
        broker_name="log.segment.delete.delay.ms",
    )
    flush: str = dynamic(
        "flush",
        "disk",
        "When a produce request is acknowledged: `disk` after the records are synced to disk (no "
        "acknowledged record is lost in a power failure), `os` after they are written to the page cache, "
        "as Kafka does by default. Only strom has this setting.",
        choices=("disk", "os"),
        broker_name="flush",
    )
    flush_messages: int = dynamic(
        "flush.messages",
        LONG_MAX,
        "With `flush=os`: sync to disk after this many records.",
        kind=Kind.LONG,
        minimum=1,
        broker_name="log.flush.interval.messages",
    )
    flush_ms: int = dynamic(
        "flush.ms",
        LONG_MAX,
        "With `flush=os`: sync to disk after this many milliseconds.",
        kind=Kind.LONG,
        minimum=0,
        broker_name="log.flush.interval.ms",
    )
    index_interval_bytes: int = dynamic(
        "index.interval.bytes",
        4 * KIB,
        "About how many bytes of log are between two entries of the offset index.",
        minimum=0,
        maximum=INT_MAX,
        broker_name="log.index.interval.bytes",
    )
    max_compaction_lag_ms: int = dynamic(
        "max.compaction.lag.ms",
        LONG_MAX,
        "The longest time a record of a compacted topic may wait for compaction.",
        kind=Kind.LONG,
        minimum=1,
        broker_name="log.cleaner.max.compaction.lag.ms",
    )
    max_message_bytes: int = dynamic(
        "max.message.bytes",
        MIB + 12,
        "The largest record batch (after compression) that is accepted.",
        minimum=0,
        maximum=INT_MAX,
        broker_name="message.max.bytes",
    )
    message_timestamp_after_max_ms: int = dynamic(
        "message.timestamp.after.max.ms",
        HOUR_MS,
        "How far a record's timestamp may be ahead of the broker's clock.",
        kind=Kind.LONG,
        minimum=0,
        broker_name="log.message.timestamp.after.max.ms",
    )
    message_timestamp_before_max_ms: int = dynamic(
        "message.timestamp.before.max.ms",
        LONG_MAX,
        "How far a record's timestamp may be behind the broker's clock.",
        kind=Kind.LONG,
        minimum=0,
        broker_name="log.message.timestamp.before.max.ms",
    )
    message_timestamp_type: str = dynamic(
        "message.timestamp.type",
        "CreateTime",
        "The timestamp of records: the producer's (`CreateTime`) or the broker's (`LogAppendTime`).",
        choices=("CreateTime", "LogAppendTime"),
        broker_name="log.message.timestamp.type",
    )
    min_cleanable_dirty_ratio: float = dynamic(
        "min.cleanable.dirty.ratio",
        0.5,
        "The ratio of a log that must be uncompacted before compaction starts.",
        minimum=0,
        maximum=1,
        broker_name="log.cleaner.min.cleanable.ratio",
    )
    min_compaction_lag_ms: int = dynamic(
        "min.compaction.lag.ms",
        0,
        "The shortest time a record stays uncompacted.",
        kind=Kind.LONG,
        minimum=0,
        broker_name="log.cleaner.min.compaction.lag.ms",
    )
    min_insync_replicas: int = dynamic(
        "min.insync.replicas",
        1,
        "How many replicas must have a record before `acks=all` is acknowledged; never more than "
        "the topic has. An embedded broker has one replica, so this has an effect only on a cluster.",
        minimum=1,
        broker_name="min.insync.replicas",
    )
    preallocate: bool = dynamic(
        "preallocate",
        False,
        "Accepted for compatibility, without effect: strom never preallocates files.",
        broker_name="log.preallocate",
    )
    retention_bytes: int = dynamic(
        "retention.bytes",
        -1,
        "The size a partition may reach before its oldest segments are deleted; -1 for no limit.",
        kind=Kind.LONG,
        broker_name="log.retention.bytes",
    )
    retention_ms: int = dynamic(
        "retention.ms",
        7 * DAY_MS,
        "How long records are kept, from the newest record of a segment; -1 for no limit.",
        kind=Kind.LONG,
        minimum=-1,
        broker_name="log.retention.ms",
    )
    schema_validation: bool = dynamic(
        "strom.schema.validation",
        False,
        "Reject records whose value does not begin with the id of a schema in the schema registry of "
        "this broker (its topic `_schemas`). Records without a value are accepted. Only strom has this "
        "setting.",
        broker_name="strom.schema.validation",
    )
    segment_bytes: int = dynamic(
        "segment.bytes",
        GIB,
        "The largest size of a segment file; then a new one is created.",
        minimum=MIB,
        maximum=INT_MAX,
        broker_name="log.segment.bytes",
    )
    segment_index_bytes: int = dynamic(
        "segment.index.bytes",
        10 * MIB,
        "The largest size of a segment's offset index; then the segment is closed.",
        minimum=4,
        maximum=INT_MAX,
        broker_name="log.index.size.max.bytes",
    )
    segment_jitter_ms: int = dynamic(
        "segment.jitter.ms",
        0,
        "The largest random reduction of `segment.ms`, so that not all segments close at once.",
        kind=Kind.LONG,
        minimum=0,
        broker_name="log.roll.jitter.ms",
    )
    segment_ms: int = dynamic(
        "segment.ms",
        7 * DAY_MS,
        "A segment is closed after this time even if it is not full.",
        kind=Kind.LONG,
        minimum=1,
        broker_name="log.roll.ms",
    )
    unclean_leader_election_enable: bool = dynamic(
        "unclean.leader.election.enable",
        False,
        "Whether an out-of-sync replica may become leader. An embedded broker has one replica, so "
        "this has an effect only on a cluster.",
        broker_name="unclean.leader.election.enable",
    )

    @property
    def compacted(self) -> bool:
        """Whether the topic keeps the last value per key."""
        return "compact" in self.cleanup_policy

    @property
    def deleted_by_age_or_size(self) -> bool:
        """Whether old segments are dropped."""
        return "delete" in self.cleanup_policy

    @property
    def durable(self) -> bool:
        """Whether a response waits for the disk."""
        return self.flush == "disk"

    @property
    def stamps_append_time(self) -> bool:
        """Whether the broker overwrites the producer's timestamps."""
        return self.message_timestamp_type == "LogAppendTime"
