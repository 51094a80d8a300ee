"""The settings of share groups: per group, and per broker."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from strom.model.errors import ApiError, ErrorCode
from strom.model.settings import MIB, MINUTE_MS, SECOND_MS, Settings, dynamic, static
from strom.model.topics import check_topic_name

RESET = "share.auto.offset.reset"
DEAD_LETTER_TOPIC = "errors.deadletterqueue.topic.name"
LATEST, EARLIEST, BY_DURATION = "latest", "earliest", "by_duration:"
READ_COMMITTED = "read_committed"

_DURATION = re.compile(
    r"P(?=.)(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,9})?)S)?)?", re.IGNORECASE
)


@dataclass(frozen=True, kw_only=True)
class ShareGroupSettings(Settings):
    """How one share group delivers records."""

    share_session_timeout_ms: int = static(
        "share.session.timeout.ms",
        45 * SECOND_MS,
        "How long a member of a share group may send no heartbeat before it is removed.",
        minimum=1,
        broker_name="group.share.session.timeout.ms",
    )
    share_heartbeat_interval_ms: int = static(
        "share.heartbeat.interval.ms",
        5 * SECOND_MS,
        "How often members of a share group send heartbeats.",
        minimum=1,
        broker_name="group.share.heartbeat.interval.ms",
    )
    share_record_lock_duration_ms: int = static(
        "share.record.lock.duration.ms",
        30 * SECOND_MS,
        "How long the acquisition lock of a record lasts.",
        minimum=1000,
        broker_name="group.share.record.lock.duration.ms",
    )
    share_delivery_count_limit: int = static(
        "share.delivery.count.limit",
        5,
        "How often a record is delivered before it is archived.",
        minimum=2,
        broker_name="group.share.delivery.count.limit",
    )
    share_partition_max_record_locks: int = static(
        "share.partition.max.record.locks",
        2000,
        "How many records of a partition may be in flight.",
        minimum=100,
        broker_name="group.share.partition.max.record.locks",
    )
    share_auto_offset_reset: str = dynamic(
        RESET,
        LATEST,
        "Where a group starts in a partition: `latest`, `earliest`, or by age as in "
        "`by_duration:PT1H30M`.",
    )
    share_isolation_level: str = dynamic(
        "share.isolation.level",
        "read_uncommitted",
        "Whether records of transactions that are open or aborted are delivered.",
        choices=(READ_COMMITTED, "read_uncommitted"),
    )
    share_renew_acknowledge_enable: bool = dynamic(
        "share.renew.acknowledge.enable",
        True,
        "Whether members may renew the acquisition lock of a record.",
    )
    dead_letter_topic: str = dynamic(
        DEAD_LETTER_TOPIC,
        "",
        "The topic for records that were rejected, or delivered too often. Empty: such records are only "
        "archived.",
    )
    dead_letter_copy: bool = dynamic(
        "errors.deadletterqueue.copy.record.enable",
        True,
        "Whether the dead letter topic gets key, value and headers of the record, or only headers with "
        "its position and the reason.",
    )

    @property
    def reset_age_ms(self) -> int | None:
        """The largest age of the first records of a new group; None unless it starts by age."""
        if not self.share_auto_offset_reset.startswith(BY_DURATION):
            return None
        return duration_ms(self.share_auto_offset_reset.removeprefix(BY_DURATION))


@dataclass(frozen=True, kw_only=True)
class ShareBrokerSettings(Settings):
    """The limits and defaults of a broker for all share groups."""

    group_share_min_session_timeout_ms: int = static(
        "group.share.min.session.timeout.ms",
        45 * SECOND_MS,
        "The shortest session timeout that may be set for a share group.",
        minimum=1,
    )
    group_share_max_session_timeout_ms: int = static(
        "group.share.max.session.timeout.ms",
        MINUTE_MS,
        "The longest session timeout that may be set for a share group.",
        minimum=1,
    )
    group_share_min_heartbeat_interval_ms: int = static(
        "group.share.min.heartbeat.interval.ms",
        5 * SECOND_MS,
        "The shortest heartbeat interval that may be set for a share group.",
        minimum=1,
    )
    group_share_max_heartbeat_interval_ms: int = static(
        "group.share.max.heartbeat.interval.ms",
        15 * SECOND_MS,
        "The longest heartbeat interval that may be set for a share group.",
        minimum=1,
    )
    group_share_min_record_lock_duration_ms: int = static(
        "group.share.min.record.lock.duration.ms",
        15 * SECOND_MS,
        "The shortest lock duration that may be set for a share group.",
        minimum=1000,
        maximum=30 * SECOND_MS,
    )
    group_share_max_record_lock_duration_ms: int = static(
        "group.share.max.record.lock.duration.ms",
        MINUTE_MS,
        "The longest lock duration that may be set for a share group.",
        minimum=30 * SECOND_MS,
        maximum=60 * MINUTE_MS,
    )
    group_share_min_delivery_count_limit: int = static(
        "group.share.min.delivery.count.limit",
        2,
        "The smallest number of deliveries that may be set for a share group.",
        minimum=2,
        maximum=5,
    )
    group_share_max_delivery_count_limit: int = static(
        "group.share.max.delivery.count.limit",
        10,
        "The largest number of deliveries that may be set for a share group.",
        minimum=5,
        maximum=25,
    )
    group_share_min_partition_max_record_locks: int = static(
        "group.share.min.partition.max.record.locks",
        100,
        "The smallest number of records in flight that may be set for a share group.",
        minimum=100,
        maximum=2000,
    )
    group_share_max_partition_max_record_locks: int = static(
        "group.share.max.partition.max.record.locks",
        4000,
        "The largest number of records in flight that may be set for a share group.",
        minimum=2000,
        maximum=20000,
    )
    group_share_max_size: int = static(
        "group.share.max.size",
        200,
        "How many members a share group may have.",
        minimum=1,
        maximum=1000,
    )
    group_share_max_share_sessions: int = static(
        "group.share.max.share.sessions",
        2000,
        "How many members of share groups may fetch from this broker at once.",
        minimum=1,
    )
    share_state_topic_num_partitions: int = static(
        "share.coordinator.state.topic.num.partitions",
        50,
        "How many partitions `__share_group_state` gets when the first share group needs it.",
        minimum=1,
    )
    share_state_topic_segment_bytes: int = static(
        "share.coordinator.state.topic.segment.bytes",
        100 * MIB,
        "The segment size of `__share_group_state`, which every start reads.",
        minimum=MIB,
    )
    share_state_updates_per_snapshot: int = static(
        "share.coordinator.snapshot.update.records.per.snapshot",
        500,
        "After how many updates a snapshot of a share partition is written.",
        minimum=0,
        maximum=500,
    )
    share_state_topic_prune_interval_ms: int = static(
        "share.coordinator.state.topic.prune.interval.ms",
        5 * MINUTE_MS,
        "How often the part of `__share_group_state` that is no longer needed is deleted.",
        minimum=1,
    )
    dead_letter_topic_prefix: str = dynamic(
        "errors.deadletterqueue.topic.name.prefix",
        "dlq.",
        "The required prefix of dead letter topics; empty for none.",
    )
    dead_letter_auto_create: bool = dynamic(
        "errors.deadletterqueue.auto.create.topics.enable",
        True,
        "Whether a missing dead letter topic is created with its first record.",
    )


def check_share_configs(own: Mapping[str, str], limits: ShareBrokerSettings) -> None:
    """Raise INVALID_CONFIG for values that a definition alone cannot check."""
    reset = own.get(RESET, LATEST)
    if reset not in (LATEST, EARLIEST) and not _is_by_age(reset):
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Invalid value {reset} for configuration {RESET}: it must be '{EARLIEST}', '{LATEST}' or "
            f"of the form '{BY_DURATION}PnDTnHnMn.nS'.",
        )
    topic = own.get(DEAD_LETTER_TOPIC, "")
    if topic:
        _check_dead_letter_topic(topic, limits.dead_letter_topic_prefix)


def _check_dead_letter_topic(topic: str, prefix: str) -> None:
    try:
        check_topic_name(topic)
    except ApiError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"{DEAD_LETTER_TOPIC}: {error.message}") from error
    if topic.startswith("__") or not topic.startswith(prefix):
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Invalid value {topic} for configuration {DEAD_LETTER_TOPIC}: the name of a dead letter "
            f"topic must begin with '{prefix}', and must not be that of an internal topic.",
        )


def _is_by_age(reset: str) -> bool:
    return (
        reset.startswith(BY_DURATION) and duration_ms(reset.removeprefix(BY_DURATION)) is not None
    )


def duration_ms(text: str) -> int | None:
    """Milliseconds of a duration such as `P1DT2H30M4.5S`; None if it is invalid."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
