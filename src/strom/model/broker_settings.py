"""The settings of brokers, with Kafka's names where Kafka has them."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

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
    setting,
)
from strom.model.share_settings import ShareBrokerSettings
from strom.model.topic_settings import TopicSettings

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class BrokerSettings(ShareBrokerSettings):
    """How one broker runs. `strom start --set name=value` sets any of them."""

    host: str = setting(
        "host",
        Kind.STRING,
        LOOPBACK,
        "The address to listen on. The default accepts only programs on this machine.",
        live=False,
    )
    port: int = setting(
        "port",
        Kind.INT,
        9092,
        "The port for Kafka clients; 0 takes a free one.",
        minimum=0,
        maximum=65535,
        live=False,
    )
    advertised_host: str = setting(
        "advertised.host",
        Kind.STRING,
        "",
        "The host name that is advertised to clients; empty for the address listened on.",
        live=False,
    )
    advertised_port: int = setting(
        "advertised.port",
        Kind.INT,
        0,
        "The port that is advertised to clients; 0 for the port listened on.",
        minimum=0,
        maximum=65535,
        live=False,
    )
    data: str = setting(
        "log.dirs",
        Kind.STRING,
        "strom-data",
        "The data directory of the broker.",
        live=False,
    )
    node_id: int = setting(
        "node.id",
        Kind.INT,
        1,
        "The id of this broker in the cluster.",
        minimum=0,
        live=False,
    )
    auto_create_topics: bool = setting(
        "auto.create.topics.enable",
        Kind.BOOLEAN,
        True,
        "Whether a topic is created when a client first uses it.",
    )
    delete_topics: bool = setting(
        "delete.topic.enable", Kind.BOOLEAN, True, "Whether topics may be deleted."
    )
    num_partitions: int = setting(
        "num.partitions",
        Kind.INT,
        1,
        "The default number of partitions of a new topic.",
        minimum=1,
    )
    retention_check_interval_ms: int = setting(
        "log.retention.check.interval.ms",
        Kind.LONG,
        5 * MINUTE_MS,
        "How often expired segments are deleted.",
        minimum=1,
    )
    cleaner_backoff_ms: int = setting(
        "log.cleaner.backoff.ms",
        Kind.LONG,
        15 * SECOND_MS,
        "How often compacted topics are checked for compaction.",
        minimum=1,
    )
    recovery_point_interval_ms: int = setting(
        "log.flush.offset.checkpoint.interval.ms",
        Kind.INT,
        5 * SECOND_MS,
        "How often the broker stores the recovery points of all partitions. Recovery after a crash "
        "checks what was written after them.",
        minimum=1,
    )
    producer_id_expiration_ms: int = setting(
        "producer.id.expiration.ms",
        Kind.INT,
        24 * 60 * MINUTE_MS,
        "How long the state of an idle idempotent producer is kept.",
        minimum=1,
    )
    max_request_bytes: int = setting(
        "socket.request.max.bytes",
        Kind.INT,
        100 * MIB,
        "The largest request that is read from a connection.",
        minimum=1,
        maximum=INT_MAX,
        live=False,
    )
    max_first_request_bytes: int = setting(
        "sasl.server.max.receive.size",
        Kind.INT,
        512 * KIB,
        "The largest first request on a connection (or, with authentication, the largest before it).",
        minimum=1,
        live=False,
    )
    max_bytes_in_flight: int = setting(
        "queued.max.request.bytes",
        Kind.LONG,
        256 * MIB,
        "Memory for requests being received and responses being sent, over all connections. Beyond it, "
        "reading pauses.",
        minimum=MIB,
        live=False,
    )
    frame_deadline_ms: int = setting(
        "socket.frame.deadline.ms",
        Kind.INT,
        30 * SECOND_MS,
        "How long a partly received request may take before its connection is closed.",
        minimum=1,
        live=False,
    )
    max_connections: int = setting(
        "max.connections",
        Kind.INT,
        12_000,
        "How many connections may be open at once, those of queue clients and of the management "
        "interface included. Fewer if `ulimit -n` is low: half of those files are for the log, 64 for "
        "the rest of the process.",
        minimum=1,
        live=False,
    )
    connections_max_idle_ms: int = setting(
        "connections.max.idle.ms",
        Kind.LONG,
        10 * MINUTE_MS,
        "A connection without traffic is closed after this time.",
        minimum=1,
        live=False,
    )
    max_fetch_sessions: int = setting(
        "max.incremental.fetch.session.cache.slots",
        Kind.INT,
        1000,
        "How many consumers may use incremental fetch sessions at once.",
        minimum=0,
        live=False,
    )
    fetch_max_bytes: int = setting(
        "fetch.max.bytes",
        Kind.INT,
        55 * MIB,
        "The largest fetch response, regardless of the request; a single larger batch is still sent.",
        minimum=KIB,
    )
    group_initial_rebalance_delay_ms: int = setting(
        "group.initial.rebalance.delay.ms",
        Kind.INT,
        3 * SECOND_MS,
        "How long an empty group waits for more members before its first rebalance.",
        minimum=0,
        live=False,
    )
    group_min_session_timeout_ms: int = setting(
        "group.min.session.timeout.ms",
        Kind.INT,
        6 * SECOND_MS,
        "The shortest session timeout of a member of a classic group.",
        minimum=0,
        live=False,
    )
    group_max_session_timeout_ms: int = setting(
        "group.max.session.timeout.ms",
        Kind.INT,
        30 * MINUTE_MS,
        "The longest session timeout of a member of a classic group.",
        minimum=0,
        live=False,
    )
    group_max_size: int = setting(
        "group.max.size",
        Kind.INT,
        INT_MAX,
        "The most members of a classic group.",
        minimum=1,
        live=False,
    )
    offset_metadata_max_bytes: int = setting(
        "offset.metadata.max.bytes",
        Kind.INT,
        4 * KIB,
        "The largest metadata of a committed offset.",
        minimum=0,
        live=False,
    )
    offsets_retention_minutes: int = setting(
        "offsets.retention.minutes",
        Kind.INT,
        7 * 24 * 60,
        "How long the offsets of a group are kept after its last member has left. Those of topics that "
        "members read never expire; those of other topics do, counted from the commit.",
        minimum=1,
        live=False,
    )
    offsets_retention_check_interval_ms: int = setting(
        "offsets.retention.check.interval.ms",
        Kind.LONG,
        10 * MINUTE_MS,
        "How often expired offsets are deleted.",
        minimum=1,
        live=False,
    )
    offsets_topic_num_partitions: int = setting(
        "offsets.topic.num.partitions",
        Kind.INT,
        50,
        "How many partitions `__consumer_offsets` gets when the first group needs it.",
        minimum=1,
        live=False,
    )
    offsets_topic_segment_bytes: int = setting(
        "offsets.topic.segment.bytes",
        Kind.INT,
        100 * MIB,
        "The largest segment of `__consumer_offsets`. Segments are closed and compacted earlier when "
        "more than 8 MiB of internal topics are uncompacted, because every start reads them.",
        minimum=MIB,
        live=False,
    )
    amqp_port: int = setting(
        "amqp.port",
        Kind.INT,
        5672,
        "The port for queue clients (AMQP 0-9-1); 0 for none, -1 takes a free one.",
        minimum=-1,
        maximum=65535,
        live=False,
    )
    amqp_management_port: int = setting(
        "amqp.management.port",
        Kind.INT,
        15672,
        "The port of the management interface of queues (HTTP); 0 for none, -1 takes a free one.",
        minimum=-1,
        maximum=65535,
        live=False,
    )
    metrics_port: int = setting(
        "metrics.port",
        Kind.INT,
        0,
        "The port that serves metrics to Prometheus at /metrics; 0 for none, -1 takes a free one. It "
        "listens on the address of `host`.",
        minimum=-1,
        maximum=65535,
        live=False,
    )
    metrics_max_label_values: int = setting(
        "metrics.max.label.values",
        Kind.INT,
        1000,
        "How many topics, partitions, groups or queues get series of their own in the metrics. The "
        "largest do; all others are summed up as `_other`.",
        minimum=0,
        live=False,
    )
    http_allowed_hosts: tuple[str, ...] = setting(
        ALLOWED_HOSTS.name,
        ALLOWED_HOSTS.kind,
        ALLOWED_HOSTS.default,
        ALLOWED_HOSTS.doc,
        live=False,
    )
    amqp_user: str = setting(
        "amqp.user", Kind.STRING, "guest", "The name that queue clients log in with.", live=False
    )
    amqp_password: str = setting(
        "amqp.password",
        Kind.PASSWORD,
        "guest",
        "The password of queue clients; set it in a file (`strom start --config FILE`).",
        live=False,
    )
    amqp_max_message_bytes: int = setting(
        "amqp.max.message.bytes",
        Kind.INT,
        16 * MIB,
        "The largest message that a queue client may publish.",
        minimum=1,
        maximum=48 * MIB,
        live=False,
    )
    amqp_channel_max: int = setting(
        "amqp.channel.max",
        Kind.INT,
        2047,
        "How many channels a connection of a queue client may have.",
        minimum=1,
        maximum=65535,
        live=False,
    )
    amqp_heartbeat_s: int = setting(
        "amqp.heartbeat.seconds",
        Kind.INT,
        60,
        "The heartbeat interval that is proposed to queue clients; 0 leaves it to the client.",
        minimum=0,
        maximum=65535,
        live=False,
    )
    amqp_consumer_timeout_ms: int = setting(
        "amqp.consumer.timeout.ms",
        Kind.LONG,
        30 * MINUTE_MS,
        "How long a queue client may keep a message without acknowledging it before its channel is "
        "closed and the message requeued; 0 or less for no limit. A queue's x-consumer-timeout "
        "overrides it.",
        live=False,
    )
    amqp_handshake_timeout_ms: int = setting(
        "amqp.handshake.timeout.ms",
        Kind.INT,
        10 * SECOND_MS,
        "How long a queue client may take to log in.",
        minimum=1,
        live=False,
    )
    group_consumer_min_session_timeout_ms: int = setting(
        "group.consumer.min.session.timeout.ms",
        Kind.INT,
        45 * SECOND_MS,
        "The shortest session timeout that may be set for a consumer group.",
        minimum=1,
        live=False,
    )
    group_consumer_max_session_timeout_ms: int = setting(
        "group.consumer.max.session.timeout.ms",
        Kind.INT,
        MINUTE_MS,
        "The longest session timeout that may be set for a consumer group.",
        minimum=1,
        live=False,
    )
    group_consumer_min_heartbeat_interval_ms: int = setting(
        "group.consumer.min.heartbeat.interval.ms",
        Kind.INT,
        5 * SECOND_MS,
        "The shortest heartbeat interval that may be set for a consumer group.",
        minimum=1,
        live=False,
    )
    group_consumer_max_heartbeat_interval_ms: int = setting(
        "group.consumer.max.heartbeat.interval.ms",
        Kind.INT,
        15 * SECOND_MS,
        "The longest heartbeat interval that may be set for a consumer group.",
        minimum=1,
        live=False,
    )
    group_consumer_min_assignment_interval_ms: int = setting(
        "group.consumer.min.assignment.interval.ms",
        Kind.INT,
        0,
        "The shortest time between two assignments that may be set for a consumer group.",
        minimum=0,
        live=False,
    )
    group_consumer_max_assignment_interval_ms: int = setting(
        "group.consumer.max.assignment.interval.ms",
        Kind.INT,
        15 * SECOND_MS,
        "The longest time between two assignments that may be set for a consumer group.",
        minimum=0,
        live=False,
    )
    group_consumer_max_size: int = setting(
        "group.consumer.max.size",
        Kind.INT,
        INT_MAX,
        "How many members a consumer group may have.",
        minimum=1,
        live=False,
    )
    group_consumer_assignors: tuple[str, ...] = setting(
        "group.consumer.assignors",
        Kind.LIST,
        ("uniform", "range"),
        "The assignors that members of a consumer group may choose; the first is the default.",
        choices=("uniform", "range"),
        live=False,
    )
    group_consumer_migration_policy: str = setting(
        "group.consumer.migration.policy",
        Kind.STRING,
        "bidirectional",
        "Whether a group with members may move to the consumer protocol (`upgrade`), back to the classic "
        "one (`downgrade`), both or neither (`disabled`). Empty groups always may.",
        choices=("bidirectional", "upgrade", "downgrade", "disabled"),
        live=False,
    )
    transaction_max_timeout_ms: int = setting(
        "transaction.max.timeout.ms",
        Kind.INT,
        15 * MINUTE_MS,
        "The longest transaction timeout of a producer.",
        minimum=1,
        live=False,
    )
    transaction_abort_interval_ms: int = setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        Kind.INT,
        10 * SECOND_MS,
        "How often transactions past their timeout are aborted.",
        minimum=1,
        live=False,
    )
    transactional_id_expiration_ms: int = setting(
        "transactional.id.expiration.ms",
        Kind.INT,
        7 * 24 * 60 * MINUTE_MS,
        "How long an unused transactional id is kept.",
        minimum=1,
        live=False,
    )
    transactional_id_expiration_interval_ms: int = setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        Kind.INT,
        60 * MINUTE_MS,
        "How often expired transactional ids are deleted.",
        minimum=1,
        live=False,
    )
    transaction_partition_verification: bool = setting(
        "transaction.partition.verification.enable",
        Kind.BOOLEAN,
        True,
        "Whether a transactional batch is rejected unless its partition is part of an open transaction. "
        "Without it, a late batch can leave a hanging transaction.",
    )
    transaction_topic_num_partitions: int = setting(
        "transaction.state.log.num.partitions",
        Kind.INT,
        50,
        "How many partitions `__transaction_state` gets when the first transaction needs it.",
        minimum=1,
        live=False,
    )
    transaction_topic_segment_bytes: int = setting(
        "transaction.state.log.segment.bytes",
        Kind.INT,
        100 * MIB,
        "The largest segment of `__transaction_state`. Segments are closed and compacted earlier when "
        "more than 8 MiB of internal topics are uncompacted, because every start reads them.",
        minimum=MIB,
        live=False,
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
        return dataclasses.replace(
            changed,
            topic_defaults=changed.topic_defaults.override(for_topics),
            group_defaults=changed.group_defaults.override(for_groups),
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
