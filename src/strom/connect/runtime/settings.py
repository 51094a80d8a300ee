"""The settings of workers, and those that every connector has, each declared once."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from strom.connect.api import ConnectorSettings, Importance, Kind, setting
from strom.connect.declared import DECLARED_BY
from strom.model.http_settings import ALLOWED_HOSTS
from strom.model.settings import MINUTE_MS, SECOND_MS

DEFAULT_PORT = 8083
JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
SIMPLE_HEADERS = "org.apache.kafka.connect.storage.SimpleHeaderConverter"

CLIENT_PREFIXES = ("producer.", "consumer.", "admin.")
"""In a worker's settings: what its clients of each kind get, in librdkafka's names."""
OVERRIDE_PREFIXES = ("producer.override.", "consumer.override.", "admin.override.")
"""In a connector's settings: the same for its own clients."""
CONVERTER_PREFIXES = ("key.converter.", "value.converter.", "header.converter.")


@dataclass(frozen=True, kw_only=True)
class WorkerSettings(ConnectorSettings):
    """How one worker runs; workers of the same `group.id` and topics share their work."""

    bootstrap_servers: str = setting(
        "bootstrap.servers", Kind.STRING, "The Kafka to connect to.", "127.0.0.1:9092"
    )
    group_id: str = setting(
        "group.id", Kind.STRING, "The group of workers that share their work.", "connect-cluster"
    )
    host: str = setting("rest.host", Kind.STRING, "Where REST listens.", "127.0.0.1")
    port: int = setting(
        "rest.port", Kind.INT, "The port of REST; 0 takes a free one.", DEFAULT_PORT, minimum=0
    )
    advertised_host: str | None = setting(
        "rest.advertised.host.name",
        Kind.STRING,
        "The name by which others reach this worker; it is part of its id. Without it, rest.host.",
    )
    allowed_hosts: tuple[str, ...] = setting(
        ALLOWED_HOSTS.name, ALLOWED_HOSTS.kind, ALLOWED_HOSTS.doc, ALLOWED_HOSTS.default
    )
    config_topic: str = setting(
        "config.storage.topic", Kind.STRING, "Holds configurations.", "connect-configs"
    )
    offset_topic: str = setting(
        "offset.storage.topic", Kind.STRING, "Holds offsets of sources.", "connect-offsets"
    )
    offset_partitions: int = setting(
        "offset.storage.partitions", Kind.INT, "Partitions of that topic.", 25, minimum=1
    )
    status_topic: str = setting(
        "status.storage.topic", Kind.STRING, "Holds states of connectors.", "connect-status"
    )
    status_partitions: int = setting(
        "status.storage.partitions", Kind.INT, "Partitions of that topic.", 5, minimum=1
    )
    replication_factor: int = setting(
        "storage.replication.factor",
        Kind.INT,
        "Copies of the three topics; -1 is the broker's default.",
        -1,
        minimum=-1,
    )
    key_converter: str = setting(
        "key.converter", Kind.STRING, "How keys become bytes, unless a connector says.", "JSON"
    )
    value_converter: str = setting(
        "value.converter", Kind.STRING, "How values become bytes, unless a connector says.", "JSON"
    )
    header_converter: str = setting(
        "header.converter", Kind.STRING, "How headers become bytes.", SIMPLE_HEADERS
    )
    flush_interval_ms: int = setting(
        "offset.flush.interval.ms",
        Kind.LONG,
        "How often sources store offsets, and sinks flush and commit, while records flow. Kafka's "
        "default is a minute.",
        10 * SECOND_MS,
        minimum=1,
    )
    graceful_ms: int = setting(
        "task.shutdown.graceful.timeout.ms",
        Kind.LONG,
        "How long a stopping worker waits for its tasks.",
        10 * SECOND_MS,
        minimum=0,
    )
    exactly_once: str = setting(
        "exactly.once.source.support",
        Kind.STRING,
        "Whether sources write records and offsets in one transaction. Connectors that cannot "
        "stay at least once.",
        "enabled",
        choices=("disabled", "preparing", "enabled"),
    )
    session_ms: int = setting(
        "session.timeout.ms",
        Kind.INT,
        "A worker that is silent for so long has lost its tasks.",
        10 * SECOND_MS,
        minimum=1000,
    )
    heartbeat_ms: int = setting(
        "heartbeat.interval.ms", Kind.INT, "How often a worker reports.", SECOND_MS, minimum=10
    )
    plugin_packages: tuple[str, ...] = setting(
        "plugin.packages",
        Kind.LIST,
        "Python packages from which connectors may be imported by `connector.class=module:class`, "
        "separated by commas; what is below a package is included. Connectors of strom and of entry "
        "points need none. Kafka has no such setting.",
        (),
    )
    log_lines: int = setting(
        "log.lines", Kind.INT, "Last lines kept for each connector.", 500, minimum=0
    )

    def validate(self) -> Mapping[str, str]:
        """Packages are named as in an import."""
        for package in self.plugin_packages:
            if not all(part.isidentifier() for part in package.split(".")):
                return {"plugin.packages": f"{package} is not the name of a Python package."}
        return {}


@dataclass(frozen=True, kw_only=True)
class CommonSettings(ConnectorSettings):
    """What every connector has, whatever it connects."""

    name: str = setting("name", Kind.STRING, "The connector's name.", required=True)
    connector_class: str = setting(
        "connector.class", Kind.STRING, "Which connector it is.", required=True
    )
    tasks_max: int = setting(
        "tasks.max",
        Kind.INT,
        "The largest number of tasks.",
        1,
        minimum=1,
        importance=Importance.HIGH,
    )
    key_converter: str | None = setting(
        "key.converter", Kind.STRING, "How keys become bytes; else the worker's."
    )
    value_converter: str | None = setting(
        "value.converter", Kind.STRING, "How values become bytes; else the worker's."
    )
    header_converter: str | None = setting(
        "header.converter", Kind.STRING, "How headers become bytes; else the worker's."
    )
    transforms: tuple[str, ...] = setting(
        "transforms", Kind.LIST, "Names of transforms, in the order they are applied.", ()
    )
    predicates: tuple[str, ...] = setting(
        "predicates", Kind.LIST, "Names of predicates for transforms.", ()
    )
    config_action_reload: str = setting(
        "config.action.reload",
        Kind.STRING,
        "Taken as Kafka has it; references are read anew whenever a task starts.",
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
        "What a record that cannot be handled does: fail the task (none), or be skipped (all).",
        "none",
        choices=("none", "all"),
    )
    retry_timeout_ms: int = setting(
        "errors.retry.timeout",
        Kind.LONG,
        "How long a call is repeated while the other side is away, in ms; 0 or -1: without end.",
        0,
        minimum=-1,
    )
    retry_delay_max_ms: int = setting(
        "errors.retry.delay.max.ms",
        Kind.LONG,
        "The longest wait between two tries.",
        10 * SECOND_MS,
        minimum=1,
    )
    log_errors: bool = setting(
        "errors.log.enable", Kind.BOOLEAN, "Whether tolerated errors are logged.", False
    )
    log_messages: bool = setting(
        "errors.log.include.messages",
        Kind.BOOLEAN,
        "Whether such lines tell topic, partition and offset.",
        False,
    )
    restart_backoff_ms: int = setting(
        "restart.backoff.ms",
        Kind.LONG,
        "The wait before a failed connector or task is started again, doubled each time; 0 leaves "
        "it failed, as Kafka does. Kafka has no such setting.",
        SECOND_MS,
        minimum=0,
    )
    restart_backoff_max_ms: int = setting(
        "restart.backoff.max.ms",
        Kind.LONG,
        "The longest such wait. Kafka has no such setting.",
        MINUTE_MS,
        minimum=1,
    )


@dataclass(frozen=True, kw_only=True)
class SourceSettings(CommonSettings):
    """What every source has."""

    exactly_once_support: str = setting(
        "exactly.once.support",
        Kind.STRING,
        "With `required` the connector is refused where it cannot be exactly once.",
        "requested",
        choices=("requested", "required"),
    )
    transaction_boundary: str = setting(
        "transaction.boundary",
        Kind.STRING,
        "When a transaction is committed: after every poll, in intervals, or where the connector says "
        "(few can).",
        "poll",
        choices=("poll", "interval", "connector"),
    )
    transaction_interval_ms: int | None = setting(
        "transaction.boundary.interval.ms",
        Kind.LONG,
        "The interval between commits; else offset.flush.interval.ms. The transaction timeout follows "
        "it, with a minute for the commit; the broker's transaction.max.timeout.ms limits both.",
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
        "Copies of topics that the connector creates.",
    )


@dataclass(frozen=True, kw_only=True)
class SinkSettings(CommonSettings):
    """What every sink has."""

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
        "Where records go that cannot be handled, with errors.tolerance=all.",
    )
    dead_letter_replication: int = setting(
        "errors.deadletterqueue.topic.replication.factor",
        Kind.INT,
        "Copies of that topic; -1 is the broker's default. Kafka's default is 3.",
        -1,
    )
    dead_letter_headers: bool = setting(
        "errors.deadletterqueue.context.headers.enable",
        Kind.BOOLEAN,
        "Whether headers tell what was wrong. Kafka's default is false.",
        True,
    )

    def validate(self) -> Mapping[str, str]:
        """Topics are named in one of the two ways."""
        if not self.topics and not self.topics_regex:
            return {"topics": "A sink reads topics: set topics, or topics.regex."}
        if self.topics and self.topics_regex:
            return {"topics.regex": "Set topics or topics.regex, not both."}
        if self.dead_letter_topic and self.dead_letter_topic in self.topics:
            return {
                "errors.deadletterqueue.topic.name": f"{self.dead_letter_topic} is also read: bad "
                "records would come back for ever. Name another topic."
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
