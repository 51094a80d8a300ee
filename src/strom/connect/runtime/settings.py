"""Settings of workers, and settings that every connector has."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from strom.connect.api import ConnectorSettings, Importance, setting
from strom.connect.converters.making import DEFAULT_HEADER_CONVERTER
from strom.connect.declared import DECLARED_BY
from strom.connect.setting_forms import boolean, choice, integer, milliseconds, string, strings
from strom.model.http_settings import ALLOWED_HOSTS
from strom.model.settings import MINUTE_MS, SECOND_MS

DEFAULT_PORT = 8083

CLIENT_PREFIXES = ("producer.", "consumer.", "admin.")
"""In a worker's settings: those of its clients, with librdkafka's names."""
OVERRIDE_PREFIXES = ("producer.override.", "consumer.override.", "admin.override.")
"""In a connector's settings: the same for its clients."""
CONVERTER_PREFIXES = ("key.converter.", "value.converter.", "header.converter.")


def _topic(store: str, content: str, default: str) -> Any:
    return string(f"{store}.storage.topic", f"The topic of {content}.", default)


def _partitions(store: str, default: int) -> Any:
    name, doc = f"{store}.storage.partitions", "Partitions of that topic."
    return integer(name, doc, default)


def _default_converter(part: str, default: str) -> Any:
    return string(f"{part}.converter", f"The default converter of {part}s.", default)


def _converter(part: str) -> Any:
    doc = f"The converter of {part}s. Default: the worker's."
    return string(f"{part}.converter", doc)


@dataclass(frozen=True, kw_only=True)
class WorkerSettings(ConnectorSettings):
    """Settings of a worker; workers with the same `group.id` and topics are one group."""

    bootstrap_servers: str = string(
        "bootstrap.servers", "The Kafka brokers to connect to.", "127.0.0.1:9092"
    )
    group_id: str = string(
        "group.id", "The group of workers that run the connectors.", "connect-cluster"
    )
    host: str = string("rest.host", "The address that REST listens on.", "127.0.0.1")
    port: int = integer("rest.port", "The port of REST; 0 for a free one.", DEFAULT_PORT, minimum=0)
    advertised_host: str | None = string(
        "rest.advertised.host.name",
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
    replication_factor: int = integer(
        "storage.replication.factor",
        "The replication factor of the three topics; -1 for the broker's default.",
        -1,
        minimum=-1,
    )
    key_converter: str = _default_converter("key", "JSON")
    value_converter: str = _default_converter("value", "JSON")
    header_converter: str = _default_converter("header", DEFAULT_HEADER_CONVERTER)
    flush_interval_ms: int = milliseconds(
        "offset.flush.interval.ms",
        "How often sources store offsets, and sinks flush and commit, while records flow. Kafka's "
        "default is a minute.",
        10 * SECOND_MS,
        minimum=1,
    )
    graceful_ms: int = milliseconds(
        "task.shutdown.graceful.timeout.ms",
        "How long a stopping worker waits for its tasks.",
        10 * SECOND_MS,
    )
    exactly_once: str = choice(
        "exactly.once.source.support",
        "Whether sources write records and offsets in one transaction. Connectors that do not support "
        "it are at least once.",
        ("disabled", "preparing", "enabled"),
        "enabled",
    )
    session_ms: int = integer(
        "session.timeout.ms",
        "A worker without heartbeats for this time is evicted, and its tasks are reassigned.",
        10 * SECOND_MS,
        minimum=1000,
    )
    heartbeat_ms: int = integer(
        "heartbeat.interval.ms", "How often a worker sends heartbeats.", SECOND_MS, minimum=10
    )
    plugin_packages: tuple[str, ...] = strings(
        "plugin.packages",
        "Python packages from which connectors may be imported by `connector.class=module:class`, "
        "separated by commas; subpackages are included. Not needed for connectors of strom and of "
        "entry points. Kafka has no such setting.",
    )
    max_label_values: int = integer(
        "metrics.max.label.values",
        "How many tasks get series of their own in the metrics. The largest do; all others are summed "
        "up as `_other`.",
        1000,
        minimum=0,
    )
    log_lines: int = integer(
        "log.lines", "The number of last log lines kept for each connector.", 500, minimum=0
    )

    def validate(self) -> Mapping[str, str]:
        for package in self.plugin_packages:
            if not all(part.isidentifier() for part in package.split(".")):
                return {"plugin.packages": f"{package} is not the name of a Python package."}
        return {}


@dataclass(frozen=True, kw_only=True)
class CommonSettings(ConnectorSettings):
    """Settings that every connector has."""

    name: str = string("name", "The connector's name.", required=True)
    connector_class: str = string(
        "connector.class", "The connector's class or its short name.", required=True
    )
    tasks_max: int = integer("tasks.max", "The most tasks.", 1, importance=Importance.HIGH)
    key_converter: str | None = _converter("key")
    value_converter: str | None = _converter("value")
    header_converter: str | None = _converter("header")
    transforms: tuple[str, ...] = strings(
        "transforms", "Names of transforms, in the order in which they are applied."
    )
    predicates: tuple[str, ...] = strings("predicates", "Names of predicates for transforms.")
    config_action_reload: str = choice(
        "config.action.reload",
        "Accepted for compatibility with Kafka; references are resolved at each start of a task.",
        ("none", "restart"),
        "restart",
        importance=Importance.LOW,
    )
    declared_by: str | None = string(
        DECLARED_BY,
        "The project whose strom.toml declares this connector. Kafka has no such setting.",
        importance=Importance.LOW,
    )
    tolerance: str = choice(
        "errors.tolerance",
        "Whether a record that cannot be processed fails the task (none) or is skipped (all).",
        ("none", "all"),
    )
    retry_timeout_ms: int = milliseconds(
        "errors.retry.timeout",
        "How long a call is retried while the other system is unavailable, in ms; 0 or -1 for no limit.",
        0,
        minimum=-1,
    )
    retry_delay_max_ms: int = milliseconds(
        "errors.retry.delay.max.ms",
        "The longest wait between two retries.",
        10 * SECOND_MS,
        minimum=1,
    )
    log_errors: bool = boolean("errors.log.enable", "Whether tolerated errors are logged.")
    log_messages: bool = boolean(
        "errors.log.include.messages", "Whether these lines include topic, partition and offset."
    )
    restart_backoff_ms: int = milliseconds(
        "restart.backoff.ms",
        "The wait before a failed connector or task is restarted, doubled each time; 0 leaves it "
        "failed, as in Kafka. Kafka has no such setting.",
        SECOND_MS,
    )
    restart_backoff_max_ms: int = milliseconds(
        "restart.backoff.max.ms",
        "The longest such wait. Kafka has no such setting.",
        MINUTE_MS,
        minimum=1,
    )


@dataclass(frozen=True, kw_only=True)
class SourceSettings(CommonSettings):
    """Settings that every source has."""

    exactly_once_support: str = choice(
        "exactly.once.support",
        "With `required`, a connector that does not support exactly once is refused.",
        ("requested", "required"),
    )
    transaction_boundary: str = choice(
        "transaction.boundary",
        "When a transaction is committed: after every poll, at intervals, or where the connector defines "
        "it (few do).",
        ("poll", "interval", "connector"),
    )
    transaction_interval_ms: int | None = milliseconds(
        "transaction.boundary.interval.ms",
        "The interval between commits. Default: offset.flush.interval.ms. The transaction timeout is "
        "this and a minute for the commit; the broker's transaction.max.timeout.ms limits it.",
        minimum=1,
    )
    creation_partitions: int | None = integer(
        "topic.creation.default.partitions",
        "Partitions of topics that the connector creates.",
        minimum=None,
    )
    creation_replication: int | None = integer(
        "topic.creation.default.replication.factor",
        "The replication factor of topics that the connector creates.",
        minimum=None,
    )


@dataclass(frozen=True, kw_only=True)
class SinkSettings(CommonSettings):
    """Settings that every sink has."""

    topics: tuple[str, ...] = strings("topics", "The topics to read.", importance=Importance.HIGH)
    topics_regex: str | None = string(
        "topics.regex",
        "A regular expression for the topics to read, instead of a list.",
        importance=Importance.HIGH,
    )
    dead_letter_topic: str | None = string(
        "errors.deadletterqueue.topic.name",
        "The topic of records that cannot be processed, with errors.tolerance=all.",
    )
    dead_letter_replication: int = integer(
        "errors.deadletterqueue.topic.replication.factor",
        "The replication factor of that topic; -1 for the broker's default. Kafka's default is 3.",
        -1,
        minimum=None,
    )
    dead_letter_headers: bool = boolean(
        "errors.deadletterqueue.context.headers.enable",
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
