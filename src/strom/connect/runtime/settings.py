"""Settings of workers, and settings that every connector has."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from strom.connect.api import ConnectorSettings, Importance, Kind, setting
from strom.connect.converters.making import DEFAULT_HEADER_CONVERTER
from strom.connect.declared import DECLARED_BY
from strom.model.http_settings import ALLOWED_HOSTS
from strom.model.settings import MINUTE_MS, SECOND_MS

DEFAULT_PORT = 8083

CLIENT_PREFIXES = ("producer.", "consumer.", "admin.")
"""In a worker's settings: those of its clients, with librdkafka's names."""
OVERRIDE_PREFIXES = ("producer.override.", "consumer.override.", "admin.override.")
"""In a connector's settings: the same for its clients."""
CONVERTER_PREFIXES = ("key.converter.", "value.converter.", "header.converter.")


def _ms(name: str, default: int, minimum: int, doc: str) -> Any:
    return setting(name, Kind.LONG, doc, default, minimum=minimum)


def _topic(store: str, content: str, default: str) -> Any:
    return setting(f"{store}.storage.topic", Kind.STRING, f"The topic of {content}.", default)


def _partitions(store: str, default: int) -> Any:
    name, doc = f"{store}.storage.partitions", "Partitions of that topic."
    return setting(name, Kind.INT, doc, default, minimum=1)


def _default_converter(part: str, default: str) -> Any:
    return setting(f"{part}.converter", Kind.STRING, f"The default converter of {part}s.", default)


def _converter(part: str) -> Any:
    doc = f"The converter of {part}s. Default: the worker's."
    return setting(f"{part}.converter", Kind.STRING, doc)


@dataclass(frozen=True, kw_only=True)
class WorkerSettings(ConnectorSettings):
    """Settings of a worker; workers with the same `group.id` and topics are one group."""

    bootstrap_servers: str = setting(
        "bootstrap.servers", Kind.STRING, "The Kafka brokers to connect to.", "127.0.0.1:9092"
    )
    group_id: str = setting(
        "group.id",
        Kind.STRING,
        "The group of workers that run the connectors.",
        "connect-cluster",
    )
    host: str = setting("rest.host", Kind.STRING, "The address that REST listens on.", "127.0.0.1")
    port: int = setting(
        "rest.port", Kind.INT, "The port of REST; 0 for a free one.", DEFAULT_PORT, minimum=0
    )
    advertised_host: str | None = setting(
        "rest.advertised.host.name",
        Kind.STRING,
        "The host name by which clients reach this worker, part of its id. Default: rest.host.",
    )
    allowed_hosts: tuple[str, ...] = setting(
        ALLOWED_HOSTS.name, ALLOWED_HOSTS.kind, ALLOWED_HOSTS.doc, ALLOWED_HOSTS.default
    )
    config_topic: str = _topic("config", "configurations", "connect-configs")
    offset_topic: str = _topic("offset", "source offsets", "connect-offsets")
    offset_partitions: int = _partitions("offset", 25)
    status_topic: str = _topic("status", "states", "connect-status")
    status_partitions: int = _partitions("status", 5)
    replication_factor: int = setting(
        "storage.replication.factor",
        Kind.INT,
        "The replication factor of the three topics; -1 for the broker's default.",
        -1,
        minimum=-1,
    )
    key_converter: str = _default_converter("key", "JSON")
    value_converter: str = _default_converter("value", "JSON")
    header_converter: str = _default_converter("header", DEFAULT_HEADER_CONVERTER)
    flush_interval_ms: int = _ms(
        "offset.flush.interval.ms",
        10 * SECOND_MS,
        1,
        "How often sources store offsets, and sinks flush and commit, while records flow. Kafka's "
        "default is a minute.",
    )
    graceful_ms: int = _ms(
        "task.shutdown.graceful.timeout.ms",
        10 * SECOND_MS,
        0,
        "How long a stopping worker waits for its tasks.",
    )
    exactly_once: str = setting(
        "exactly.once.source.support",
        Kind.STRING,
        "Whether sources write records and offsets in one transaction. Connectors that do not support "
        "it are at least once.",
        "enabled",
        choices=("disabled", "preparing", "enabled"),
    )
    session_ms: int = setting(
        "session.timeout.ms",
        Kind.INT,
        "A worker without heartbeats for this time is evicted, and its tasks are reassigned.",
        10 * SECOND_MS,
        minimum=1000,
    )
    heartbeat_ms: int = setting(
        "heartbeat.interval.ms",
        Kind.INT,
        "How often a worker sends heartbeats.",
        SECOND_MS,
        minimum=10,
    )
    plugin_packages: tuple[str, ...] = setting(
        "plugin.packages",
        Kind.LIST,
        "Python packages from which connectors may be imported by `connector.class=module:class`, "
        "separated by commas; subpackages are included. Not needed for connectors of strom and of "
        "entry points. Kafka has no such setting.",
        (),
    )
    max_label_values: int = setting(
        "metrics.max.label.values",
        Kind.INT,
        "How many tasks get series of their own in the metrics. The largest do; all others are summed "
        "up as `_other`.",
        1000,
        minimum=0,
    )
    log_lines: int = setting(
        "log.lines",
        Kind.INT,
        "The number of last log lines kept for each connector.",
        500,
        minimum=0,
    )

    def validate(self) -> Mapping[str, str]:
        for package in self.plugin_packages:
            if not all(part.isidentifier() for part in package.split(".")):
                return {"plugin.packages": f"{package} is not the name of a Python package."}
        return {}


@dataclass(frozen=True, kw_only=True)
class CommonSettings(ConnectorSettings):
    """Settings that every connector has."""

    name: str = setting("name", Kind.STRING, "The connector's name.", required=True)
    connector_class: str = setting(
        "connector.class", Kind.STRING, "The connector's class or its short name.", required=True
    )
    tasks_max: int = setting(
        "tasks.max",
        Kind.INT,
        "The most tasks.",
        1,
        minimum=1,
        importance=Importance.HIGH,
    )
    key_converter: str | None = _converter("key")
    value_converter: str | None = _converter("value")
    header_converter: str | None = _converter("header")
    transforms: tuple[str, ...] = setting(
        "transforms", Kind.LIST, "Names of transforms, in the order in which they are applied.", ()
    )
    predicates: tuple[str, ...] = setting(
        "predicates", Kind.LIST, "Names of predicates for transforms.", ()
    )
    config_action_reload: str = setting(
        "config.action.reload",
        Kind.STRING,
        "Accepted for compatibility with Kafka; references are resolved at each start of a task.",
        "restart",
        choices=("none", "restart"),
        importance=Importance.LOW,
    )
    declared_by: str | None = setting(
        DECLARED_BY,
        Kind.STRING,
        "The project whose strom.toml declares this connector. Kafka has no such setting.",
        importance=Importance.LOW,
    )
    tolerance: str = setting(
        "errors.tolerance",
        Kind.STRING,
        "Whether a record that cannot be processed fails the task (none) or is skipped (all).",
        "none",
        choices=("none", "all"),
    )
    retry_timeout_ms: int = setting(
        "errors.retry.timeout",
        Kind.LONG,
        "How long a call is retried while the other system is unavailable, in ms; 0 or -1 for no limit.",
        0,
        minimum=-1,
    )
    retry_delay_max_ms: int = _ms(
        "errors.retry.delay.max.ms", 10 * SECOND_MS, 1, "The longest wait between two retries."
    )
    log_errors: bool = setting(
        "errors.log.enable", Kind.BOOLEAN, "Whether tolerated errors are logged.", False
    )
    log_messages: bool = setting(
        "errors.log.include.messages",
        Kind.BOOLEAN,
        "Whether these lines include topic, partition and offset.",
        False,
    )
    restart_backoff_ms: int = _ms(
        "restart.backoff.ms",
        SECOND_MS,
        0,
        "The wait before a failed connector or task is restarted, doubled each time; 0 leaves it "
        "failed, as in Kafka. Kafka has no such setting.",
    )
    restart_backoff_max_ms: int = _ms(
        "restart.backoff.max.ms", MINUTE_MS, 1, "The longest such wait. Kafka has no such setting."
    )


@dataclass(frozen=True, kw_only=True)
class SourceSettings(CommonSettings):
    """Settings that every source has."""

    exactly_once_support: str = setting(
        "exactly.once.support",
        Kind.STRING,
        "With `required`, a connector that does not support exactly once is refused.",
        "requested",
        choices=("requested", "required"),
    )
    transaction_boundary: str = setting(
        "transaction.boundary",
        Kind.STRING,
        "When a transaction is committed: after every poll, at intervals, or where the connector defines "
        "it (few do).",
        "poll",
        choices=("poll", "interval", "connector"),
    )
    transaction_interval_ms: int | None = setting(
        "transaction.boundary.interval.ms",
        Kind.LONG,
        "The interval between commits. Default: offset.flush.interval.ms. The transaction timeout is "
        "this and a minute for the commit; the broker's transaction.max.timeout.ms limits it.",
        minimum=1,
    )
    creation_partitions: int | None = setting(
        "topic.creation.default.partitions",
        Kind.INT,
        "Partitions of topics that the connector creates.",
    )
    creation_replication: int | None = setting(
        "topic.creation.default.replication.factor",
        Kind.INT,
        "The replication factor of topics that the connector creates.",
    )


@dataclass(frozen=True, kw_only=True)
class SinkSettings(CommonSettings):
    """Settings that every sink has."""

    topics: tuple[str, ...] = setting(
        "topics", Kind.LIST, "The topics to read.", (), importance=Importance.HIGH
    )
    topics_regex: str | None = setting(
        "topics.regex",
        Kind.STRING,
        "A regular expression for the topics to read, instead of a list.",
        importance=Importance.HIGH,
    )
    dead_letter_topic: str | None = setting(
        "errors.deadletterqueue.topic.name",
        Kind.STRING,
        "The topic of records that cannot be processed, with errors.tolerance=all.",
    )
    dead_letter_replication: int = setting(
        "errors.deadletterqueue.topic.replication.factor",
        Kind.INT,
        "The replication factor of that topic; -1 for the broker's default. Kafka's default is 3.",
        -1,
    )
    dead_letter_headers: bool = setting(
        "errors.deadletterqueue.context.headers.enable",
        Kind.BOOLEAN,
        "Whether headers contain the reason. Kafka's default is false.",
        True,
    )

    def validate(self) -> Mapping[str, str]:
        if not self.topics and not self.topics_regex:
            return {"topics": "A sink needs topics: set topics or topics.regex."}
        if self.topics and self.topics_regex:
            return {"topics.regex": "Set topics or topics.regex, not both."}
        if self.dead_letter_topic and self.dead_letter_topic in self.topics:
            return {
                "errors.deadletterqueue.topic.name": f"{self.dead_letter_topic} is also in topics: "
                "dead letters would be read again and again. Choose another topic."
            }
        return {}


def with_prefix(texts: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The settings that begin with a prefix, without it."""
    return {
        name.removeprefix(prefix): text for name, text in texts.items() if name.startswith(prefix)
    }


def without(texts: Mapping[str, str], prefixes: Iterable[str]) -> dict[str, str]:
    """The settings that begin with none of the prefixes."""
    some = tuple(prefixes)
    return {name: text for name, text in texts.items() if not name.startswith(some)}
