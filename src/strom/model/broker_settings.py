"""The settings of brokers, with Kafka's names where Kafka has them."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from strom.model.address_limits import parse_address_limits
from strom.model.group_settings import GroupSettings
from strom.model.http_settings import ALLOWED_HOSTS
from strom.model.settings import (
    INT_MAX,
    KIB,
    MIB,
    MINUTE_MS,
    SECOND_MS,
    Definition,
    Kind,
    Settings,
    declared,
    dynamic,
    static,
)
from strom.model.share_settings import ShareBrokerSettings
from strom.model.topic_settings import TopicSettings

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class BrokerSettings(ShareBrokerSettings):
    """How one broker runs. `strom start --set name=value` sets any of them."""

    host: str = static(
        "host",
        LOOPBACK,
        "The address to listen on. The default accepts only programs on this machine.",
    )
    port: int = static(
        "port", 9092, "The port for Kafka clients; 0 takes a free one.", minimum=0, maximum=65535
    )
    advertised_host: str = static(
        "advertised.host",
        "",
        "The host name that is advertised to clients; empty for the address listened on.",
    )
    advertised_port: int = static(
        "advertised.port",
        0,
        "The port that is advertised to clients; 0 for the port listened on.",
        minimum=0,
        maximum=65535,
    )
    data: str = static("log.dirs", "strom-data", "The data directory of the broker.")
    node_id: int = static("node.id", 1, "The id of this broker in the cluster.", minimum=0)
    auto_create_topics: bool = dynamic(
        "auto.create.topics.enable", True, "Whether a topic is created when a client first uses it."
    )
    delete_topics: bool = dynamic("delete.topic.enable", True, "Whether topics may be deleted.")
    num_partitions: int = dynamic(
        "num.partitions", 1, "The default number of partitions of a new topic.", minimum=1
    )
    retention_check_interval_ms: int = dynamic(
        "log.retention.check.interval.ms",
        5 * MINUTE_MS,
        "How often expired segments are deleted.",
        kind=Kind.LONG,
        minimum=1,
    )
    cleaner_backoff_ms: int = dynamic(
        "log.cleaner.backoff.ms",
        15 * SECOND_MS,
        "How often compacted topics are checked for compaction.",
        kind=Kind.LONG,
        minimum=1,
    )
    recovery_point_interval_ms: int = dynamic(
        "log.flush.offset.checkpoint.interval.ms",
        5 * SECOND_MS,
        "How often the broker stores the recovery points of all partitions. Recovery after a crash "
        "checks what was written after them.",
        minimum=1,
    )
    producer_id_expiration_ms: int = dynamic(
        "producer.id.expiration.ms",
        24 * 60 * MINUTE_MS,
        "How long the state of an idle idempotent producer is kept.",
        minimum=1,
    )
    max_request_bytes: int = static(
        "socket.request.max.bytes",
        100 * MIB,
        "The largest request that is read from a connection.",
        minimum=1,
        maximum=INT_MAX,
    )
    max_first_request_bytes: int = static(
        "sasl.server.max.receive.size",
        512 * KIB,
        "The largest first request on a connection (or, with authentication, the largest before it).",
        minimum=1,
    )
    max_bytes_in_flight: int = static(
        "queued.max.request.bytes",
        256 * MIB,
        "Memory for requests being received and responses being sent, over all connections of a "
        "listener: half of it for large requests (none may be larger than that), a quarter for those up "
        "to a 128th of it, a quarter for responses. A request reserves its size; while that is not free, "
        "its connection is not read. One address holds at most three quarters of each part. While "
        "requests wait, stalled uploads are dropped, then the slowest below 1 MiB/s. Large receive "
        "buffers of AMQP connections have an eighth of it more. A response larger than 1 MiB that "
        "exceeds what is free for responses closes its connection.",
        kind=Kind.LONG,
        minimum=MIB,
    )
    frame_deadline_ms: int = static(
        "socket.frame.deadline.ms",
        30 * SECOND_MS,
        "How long a partly received request may take before its connection is closed.",
        minimum=1,
    )
    max_connections: int = static(
        "max.connections",
        12_000,
        "How many connections may be open at once, those of queue clients and of the management "
        "interface included. Fewer if `ulimit -n` is low: half of those files are for the log, but "
        "no more than 4096 if connections need them, and 80 for the rest of the process.",
        minimum=1,
    )
    max_connections_per_ip: int = static(
        "max.connections.per.ip",
        INT_MAX,
        "How many connections one IP address may have at once, over all listeners.",
        minimum=0,
    )
    max_connections_per_ip_overrides: tuple[str, ...] = static(
        "max.connections.per.ip.overrides",
        (),
        "Other limits than `max.connections.per.ip` for some addresses, as in `127.0.0.1:200,::1:200`.",
    )
    connections_max_idle_ms: int = static(
        "connections.max.idle.ms",
        10 * MINUTE_MS,
        "A connection without traffic is closed after this time.",
        kind=Kind.LONG,
        minimum=1,
    )
    max_fetch_sessions: int = static(
        "max.incremental.fetch.session.cache.slots",
        1000,
        "How many consumers may use incremental fetch sessions at once.",
        minimum=0,
    )
    fetch_max_bytes: int = dynamic(
        "fetch.max.bytes",
        55 * MIB,
        "The largest fetch response, regardless of the request; a single larger batch is still sent.",
        minimum=KIB,
    )
    group_initial_rebalance_delay_ms: int = static(
        "group.initial.rebalance.delay.ms",
        3 * SECOND_MS,
        "How long an empty group waits for more members before its first rebalance.",
        minimum=0,
    )
    group_min_session_timeout_ms: int = static(
        "group.min.session.timeout.ms",
        6 * SECOND_MS,
        "The shortest session timeout of a member of a classic group.",
        minimum=0,
    )
    group_max_session_timeout_ms: int = static(
        "group.max.session.timeout.ms",
        30 * MINUTE_MS,
        "The longest session timeout of a member of a classic group.",
        minimum=0,
    )
    group_max_size: int = static(
        "group.max.size", INT_MAX, "The most members of a classic group.", minimum=1
    )
    group_max_bytes: int = static(
        "group.max.bytes",
        16 * MIB,
        "Memory for the members of one group: what they subscribe to, and what a classic group's leader "
        "assigns. A request beyond it fails with GROUP_MAX_SIZE_REACHED.",
        kind=Kind.LONG,
        minimum=KIB,
    )
    groups_max_bytes: int = static(
        "groups.max.bytes",
        128 * MIB,
        "Memory for the members of all groups together. Beyond it, clients are asked to retry "
        "(COORDINATOR_LOAD_IN_PROGRESS).",
        kind=Kind.LONG,
        minimum=KIB,
    )
    offset_metadata_max_bytes: int = static(
        "offset.metadata.max.bytes",
        4 * KIB,
        "The largest metadata of a committed offset.",
        minimum=0,
    )
    offsets_retention_minutes: int = static(
        "offsets.retention.minutes",
        7 * 24 * 60,
        "How long the offsets of a group are kept after its last member has left. Those of topics that "
        "members read never expire; those of other topics do, counted from the commit.",
        minimum=1,
    )
    offsets_retention_check_interval_ms: int = static(
        "offsets.retention.check.interval.ms",
        10 * MINUTE_MS,
        "How often expired offsets are deleted.",
        kind=Kind.LONG,
        minimum=1,
    )
    offsets_topic_num_partitions: int = static(
        "offsets.topic.num.partitions",
        50,
        "How many partitions `__consumer_offsets` gets when the first group needs it.",
        minimum=1,
    )
    offsets_topic_segment_bytes: int = static(
        "offsets.topic.segment.bytes",
        100 * MIB,
        "The largest segment of `__consumer_offsets`. Segments are closed and compacted earlier when "
        "more than 8 MiB of internal topics are uncompacted, because every start reads them.",
        minimum=MIB,
    )
    amqp_port: int = static(
        "amqp.port",
        5672,
        "The port for queue clients (AMQP 0-9-1); 0 for none, -1 takes a free one.",
        minimum=-1,
        maximum=65535,
    )
    amqp_management_port: int = static(
        "amqp.management.port",
        15672,
        "The port of the management interface of queues (HTTP); 0 for none, -1 takes a free one.",
        minimum=-1,
        maximum=65535,
    )
    metrics_port: int = static(
        "metrics.port",
        0,
        "The port that serves metrics to Prometheus at /metrics; 0 for none, -1 takes a free one. It "
        "listens on the address of `host`.",
        minimum=-1,
        maximum=65535,
    )
    metrics_max_label_values: int = static(
        "metrics.max.label.values",
        1000,
        "How many topics, partitions, groups or queues get series of their own in the metrics. The "
        "largest do; all others are summed up as `_other`.",
        minimum=0,
    )
    client_telemetry_enable: bool = static(
        "client.telemetry.enable",
        False,
        "Whether Kafka clients may push their own metrics, which those of the broker then include. What "
        "they push is set with `kafka-client-metrics`. Only strom has this setting.",
    )
    telemetry_max_bytes: int = static(
        "telemetry.max.bytes",
        MIB,
        "The largest push of a client's metrics, compressed or not.",
        minimum=1,
    )
    http_allowed_hosts: tuple[str, ...] = static(
        ALLOWED_HOSTS.name, ALLOWED_HOSTS.default, ALLOWED_HOSTS.doc, kind=ALLOWED_HOSTS.kind
    )
    amqp_user: str = static("amqp.user", "guest", "The name that queue clients log in with.")
    amqp_password: str = static(
        "amqp.password",
        "guest",
        "The password of queue clients; set it in a file (`strom start --config FILE`).",
        kind=Kind.PASSWORD,
    )
    amqp_max_message_bytes: int = static(
        "amqp.max.message.bytes",
        16 * MIB,
        "The largest message that a queue client may publish.",
        minimum=1,
        maximum=48 * MIB,
    )
    amqp_channel_max: int = static(
        "amqp.channel.max",
        2047,
        "How many channels a connection of a queue client may have.",
        minimum=1,
        maximum=65535,
    )
    amqp_heartbeat_s: int = static(
        "amqp.heartbeat.seconds",
        60,
        "The heartbeat interval that is proposed to queue clients; 0 leaves it to the client.",
        minimum=0,
        maximum=65535,
    )
    amqp_consumer_timeout_ms: int = static(
        "amqp.consumer.timeout.ms",
        30 * MINUTE_MS,
        "How long a queue client may keep a message without acknowledging it before its channel is "
        "closed and the message requeued; 0 or less for no limit. A queue's x-consumer-timeout "
        "overrides it.",
        kind=Kind.LONG,
    )
    amqp_handshake_timeout_ms: int = static(
        "amqp.handshake.timeout.ms",
        10 * SECOND_MS,
        "How long a queue client may take to log in.",
        minimum=1,
    )
    group_consumer_min_session_timeout_ms: int = static(
        "group.consumer.min.session.timeout.ms",
        45 * SECOND_MS,
        "The shortest session timeout that may be set for a consumer group.",
        minimum=1,
    )
    group_consumer_max_session_timeout_ms: int = static(
        "group.consumer.max.session.timeout.ms",
        MINUTE_MS,
        "The longest session timeout that may be set for a consumer group.",
        minimum=1,
    )
    group_consumer_min_heartbeat_interval_ms: int = static(
        "group.consumer.min.heartbeat.interval.ms",
        5 * SECOND_MS,
        "The shortest heartbeat interval that may be set for a consumer group.",
        minimum=1,
    )
    group_consumer_max_heartbeat_interval_ms: int = static(
        "group.consumer.max.heartbeat.interval.ms",
        15 * SECOND_MS,
        "The longest heartbeat interval that may be set for a consumer group.",
        minimum=1,
    )
    group_consumer_min_assignment_interval_ms: int = static(
        "group.consumer.min.assignment.interval.ms",
        0,
        "The shortest time between two assignments that may be set for a consumer group.",
        minimum=0,
    )
    group_consumer_max_assignment_interval_ms: int = static(
        "group.consumer.max.assignment.interval.ms",
        15 * SECOND_MS,
        "The longest time between two assignments that may be set for a consumer group.",
        minimum=0,
    )
    group_consumer_max_size: int = static(
        "group.consumer.max.size", INT_MAX, "How many members a consumer group may have.", minimum=1
    )
    group_consumer_assignors: tuple[str, ...] = static(
        "group.consumer.assignors",
        ("uniform", "range"),
        "The assignors that members of a consumer group may choose; the first is the default.",
        choices=("uniform", "range"),
    )
    group_consumer_migration_policy: str = static(
        "group.consumer.migration.policy",
        "bidirectional",
        "Whether a group with members may move to the consumer protocol (`upgrade`), back to the classic "
        "one (`downgrade`), both or neither (`disabled`). Empty groups always may.",
        choices=("bidirectional", "upgrade", "downgrade", "disabled"),
    )
    transaction_max_timeout_ms: int = static(
        "transaction.max.timeout.ms",
        15 * MINUTE_MS,
        "The longest transaction timeout of a producer.",
        minimum=1,
    )
    transaction_abort_interval_ms: int = static(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10 * SECOND_MS,
        "How often transactions past their timeout are aborted.",
        minimum=1,
    )
    transactional_id_expiration_ms: int = static(
        "transactional.id.expiration.ms",
        7 * 24 * 60 * MINUTE_MS,
        "How long an unused transactional id is kept.",
        minimum=1,
    )
    transactional_id_expiration_interval_ms: int = static(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        60 * MINUTE_MS,
        "How often expired transactional ids are deleted.",
        minimum=1,
    )
    transaction_partition_verification: bool = dynamic(
        "transaction.partition.verification.enable",
        True,
        "Whether a transactional batch is rejected unless its partition is part of an open transaction. "
        "Without it, a late batch can leave a hanging transaction.",
    )
    transaction_topic_num_partitions: int = static(
        "transaction.state.log.num.partitions",
        50,
        "How many partitions `__transaction_state` gets when the first transaction needs it.",
        minimum=1,
    )
    transaction_topic_segment_bytes: int = static(
        "transaction.state.log.segment.bytes",
        100 * MIB,
        "The largest segment of `__transaction_state`. Segments are closed and compacted earlier when "
        "more than 8 MiB of internal topics are uncompacted, because every start reads them.",
        minimum=MIB,
    )
    topic_defaults: TopicSettings = field(default_factory=TopicSettings)
    """The defaults of topics; `log.retention.ms` and similar settings change these."""

    group_defaults: GroupSettings = field(default_factory=GroupSettings)
    """The defaults of groups; `group.consumer.session.timeout.ms` and similar settings change these."""

    @classmethod
    def definitions(cls) -> Mapping[str, Definition]:
        """Every broker setting by name, the ones that are defaults for topics and groups included."""
        return _with_defaults()

    @classmethod
    def definition(cls, name: str) -> Definition:
        """One definition; INVALID_CONFIG if there is none of that name."""
        found = _with_defaults().get(name)
        return found if found is not None else super().definition(name)

    def value(self, name: str) -> Any:
        """The value of the setting with that name."""
        topic_name, group_name = topic_setting_of(name), group_setting_of(name)
        if topic_name:
            return self.topic_defaults.value(topic_name)
        if group_name:
            return self.group_defaults.value(group_name)
        return super().value(name)

    def override(self, texts: Mapping[str, str]) -> "BrokerSettings":
        """A copy with the given settings parsed from text; INVALID_CONFIG if one is wrong."""
        own, for_topics, for_groups = {}, {}, {}
        for name, text in texts.items():
            if topic_name := topic_setting_of(name):
                for_topics[topic_name] = text
            elif group_name := group_setting_of(name):
                for_groups[group_name] = text
            else:
                own[name] = text
        changed = super().override(own)
        changed.connection_limits()
        return dataclasses.replace(
            changed,
            topic_defaults=changed.topic_defaults.override(for_topics),
            group_defaults=changed.group_defaults.override(for_groups),
        )

    def connection_limits(self) -> dict[str, int]:
        """The limits of addresses that have their own; INVALID_CONFIG if one is malformed."""
        return parse_address_limits(
            "max.connections.per.ip.overrides", self.max_connections_per_ip_overrides
        )


def topic_setting_of(broker_name: str) -> str | None:
    """The topic setting whose default a broker setting gives: `log.retention.ms`, `retention.ms`."""
    return _names_by_broker_name(TopicSettings).get(broker_name)


def group_setting_of(broker_name: str) -> str | None:
    """The group setting whose default a broker setting gives."""
    return _names_by_broker_name(GroupSettings).get(broker_name)


@cache
def _names_by_broker_name(settings: type[Settings]) -> dict[str, str]:
    return {
        definition.broker_name: definition.name
        for definition in settings.definitions().values()
        if definition.broker_name
    }


@cache
def _with_defaults() -> dict[str, Definition]:
    own = {name: definition for name, (_, definition) in declared(BrokerSettings).items()}
    for what, settings in (("topic", TopicSettings), ("group", GroupSettings)):
        for broker_name, name in _names_by_broker_name(settings).items():
            own[broker_name] = dataclasses.replace(
                settings.definition(name),
                name=broker_name,
                broker_name=None,
                doc=f"Default of the {what} setting `{name}`.",
            )
    return own
