"""Which settings of its Kafka clients a connector may override, and which values they take.

Any REST client can send a connector's configuration. So this is an allow-list: throughput, timeouts,
what is read, and credentials as text. A setting that names a file, loads a library, runs a program,
calls an address or sends the worker's credentials elsewhere belongs in the worker's configuration, and
so does what the worker relies on: groups, transactions and commits.

Values are checked against this table and not by a client: librdkafka loads plugins and opens files
while a client is created. Tests compare the table with librdkafka.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from strom.connect.runtime.settings import OVERRIDE_PREFIXES, with_prefix
from strom.model.errors import ApiError
from strom.model.settings import INT_MAX, Definition, Kind

PRODUCER, CONSUMER, ADMIN = "producer", "consumer", "admin"
_ALL = frozenset({PRODUCER, CONSUMER, ADMIN})
_PRODUCER, _CONSUMER = frozenset({PRODUCER}), frozenset({CONSUMER})

_FIVE_MINUTES_MS = 300_000
_FIFTEEN_MINUTES_MS = 900_000
_HOUR_MS = 3_600_000
_DAY_MS = 86_400_000
_BILLION = 1_000_000_000


@dataclass(frozen=True)
class Override:
    """A client setting that a connector may override."""

    definition: Definition
    clients: frozenset[str]

    def problem(self, text: str) -> str | None:
        """Why a value is invalid; None if it is valid."""
        try:
            self.parse(text)
        except ApiError as error:
            return str(error)
        return None

    def parse(self, text: str) -> str | int | bool:
        """The value for the client; ApiError if it is invalid.

        The client gets the parsed value: librdkafka reads 010 as 8 and 1_000 as 1, accepts no spaces
        around a value, and mechanisms in upper case only.
        """
        # Configuration files of clients write these in upper and lower case.
        if self.definition.name in _IN_ANY_CASE:
            text = _in_case_of(self.definition.choices, text)
        value: str | int | bool = self.definition.parse(text)
        is_free_text = isinstance(value, str) and not self.definition.choices
        return text if is_free_text else value


def _text(*names: str, kind: Kind = Kind.STRING) -> Iterator[Override]:
    for name in names:
        yield Override(Definition(name=name, kind=kind, default="", doc=""), _ALL)


def _flag(name: str, clients: frozenset[str]) -> Override:
    return Override(Definition(name=name, kind=Kind.BOOLEAN, default=False, doc=""), clients)


def _number(name: str, minimum: int, maximum: int, clients: frozenset[str]) -> Override:
    definition = Definition(
        name=name, kind=Kind.INT, default=0, doc="", minimum=minimum, maximum=maximum
    )
    return Override(definition, clients)


def _choice(name: str, choices: Iterable[str], clients: frozenset[str]) -> Override:
    definition = Definition(name=name, kind=Kind.STRING, default="", doc="", choices=tuple(choices))
    return Override(definition, clients)


_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_PARTITIONERS = (
    *("random", "consistent", "consistent_random", "murmur2", "murmur2_random"),
    *("fnv1a", "fnv1a_random"),
)
# GSSAPI runs a program, and OAUTHBEARER fetches tokens from an address.
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_IN_ANY_CASE = frozenset({"security.protocol", "sasl.mechanism", "sasl.mechanisms"})
_RESETS = ("smallest", "earliest", "beginning", "largest", "latest", "end", "error")

_OVERRIDES = (
    *_text("client.id", "client.rack"),
    # Connection and authentication. Certificates and keys come as PEM text, never as files.
    _choice("security.protocol", ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"), _ALL),
    _choice("sasl.mechanism", _MECHANISMS, _ALL),
    _choice("sasl.mechanisms", _MECHANISMS, _ALL),
    *_text("sasl.username", "ssl.ca.pem", "ssl.certificate.pem"),
    *_text("sasl.password", "ssl.key.pem", "ssl.key.password", kind=Kind.PASSWORD),
    _choice("broker.address.family", ("any", "v4", "v6"), _ALL),
    _choice(
        "client.dns.lookup",
        ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        _ALL,
    ),
    _flag("socket.keepalive.enable", _ALL),
    _flag("socket.nagle.disable", _ALL),
    _number("socket.timeout.ms", 10, _FIVE_MINUTES_MS, _ALL),
    _number("socket.connection.setup.timeout.ms", 1000, INT_MAX, _ALL),
    _number("socket.send.buffer.bytes", 0, 100_000_000, _ALL),
    _number("socket.receive.buffer.bytes", 0, 100_000_000, _ALL),
    _number("connections.max.idle.ms", 0, INT_MAX, _ALL),
    _number("reconnect.backoff.ms", 0, _HOUR_MS, _ALL),
    _number("reconnect.backoff.max.ms", 0, _HOUR_MS, _ALL),
    _number("retry.backoff.ms", 1, _FIVE_MINUTES_MS, _ALL),
    _number("retry.backoff.max.ms", 1, _FIVE_MINUTES_MS, _ALL),
    _number("metadata.max.age.ms", 1, _DAY_MS, _ALL),
    _number("topic.metadata.refresh.interval.ms", -1, _HOUR_MS, _ALL),
    _number("message.max.bytes", 1000, _BILLION, _ALL),
    _number("receive.message.max.bytes", 1000, INT_MAX, _ALL),
    # Producers: batches, compression, timeouts and retries.
    _choice("acks", ("all", "-1", "0", "1"), _PRODUCER),
    _flag("enable.idempotence", _PRODUCER),
    _choice("partitioner", _PARTITIONERS, _PRODUCER),
    _choice("compression.type", _CODECS, _PRODUCER),
    _choice("compression.codec", _CODECS, _PRODUCER),
    _number("compression.level", -1, 12, _PRODUCER),
    _number("batch.size", 1, INT_MAX, _PRODUCER),
    _number("batch.num.messages", 1, 1_000_000, _PRODUCER),
    _number("linger.ms", 0, _FIFTEEN_MINUTES_MS, _PRODUCER),
    _number("queue.buffering.max.ms", 0, _FIFTEEN_MINUTES_MS, _PRODUCER),
    _number("queue.buffering.max.messages", 0, INT_MAX, _PRODUCER),
    _number("queue.buffering.max.kbytes", 1, INT_MAX, _PRODUCER),
    _number("sticky.partitioning.linger.ms", 0, _FIFTEEN_MINUTES_MS, _PRODUCER),
    _number("max.in.flight.requests.per.connection", 1, 1_000_000, _PRODUCER),
    _number("max.in.flight", 1, 1_000_000, _PRODUCER),
    _number("request.timeout.ms", 1, _FIFTEEN_MINUTES_MS, _PRODUCER),
    _number("delivery.timeout.ms", 0, INT_MAX, _PRODUCER),
    _number("message.timeout.ms", 0, INT_MAX, _PRODUCER),
    _number("retries", 0, INT_MAX, _PRODUCER),
    _number("message.send.max.retries", 0, INT_MAX, _PRODUCER),
    _number("transaction.timeout.ms", 1000, INT_MAX, _PRODUCER),
    # Consumers: what is read, how much at once, and when a member is evicted.
    _choice("auto.offset.reset", _RESETS, _CONSUMER),
    _choice("isolation.level", ("read_uncommitted", "read_committed"), _CONSUMER),
    _flag("check.crcs", _CONSUMER),
    _number("fetch.min.bytes", 1, 100_000_000, _CONSUMER),
    _number("fetch.max.bytes", 0, INT_MAX - 512, _CONSUMER),
    _number("fetch.wait.max.ms", 0, _FIVE_MINUTES_MS, _CONSUMER),
    _number("fetch.message.max.bytes", 1, _BILLION, _CONSUMER),
    _number("max.partition.fetch.bytes", 1, _BILLION, _CONSUMER),
    _number("fetch.queue.backoff.ms", 0, _FIVE_MINUTES_MS, _CONSUMER),
    _number("fetch.error.backoff.ms", 0, _FIVE_MINUTES_MS, _CONSUMER),
    _number("queued.min.messages", 1, 10_000_000, _CONSUMER),
    _number("queued.max.messages.kbytes", 1, 2_097_151, _CONSUMER),
    _number("max.poll.interval.ms", 1, _DAY_MS, _CONSUMER),
    _number("session.timeout.ms", 1, _HOUR_MS, _CONSUMER),
    _number("heartbeat.interval.ms", 1, _HOUR_MS, _CONSUMER),
)
OVERRIDES: Mapping[str, Override] = {one.definition.name: one for one in _OVERRIDES}


def override_problems(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each override that is not allowed or invalid, and what to do."""
    for prefix in OVERRIDE_PREFIXES:
        client = prefix.partition(".")[0]
        for name, text in with_prefix(config, prefix).items():
            override = OVERRIDES.get(name)
            if override is None or client not in override.clients:
                yield prefix + name, f"{prefix}{name}: {_not_allowed(name, client)}"
            elif (problem := override.problem(text)) is not None:
                yield prefix + name, f"{prefix}{name}: {problem}"


def overrides_of(config: Mapping[str, str], client: str) -> dict[str, str]:
    """The overrides of a valid configuration for one kind of client."""
    own = with_prefix(config, f"{client}.override.")
    parsed = {name: OVERRIDES[name].parse(text) for name, text in own.items()}
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in parsed.items()
    }


def _not_allowed(name: str, client: str) -> str:
    allowed = [one for one, override in OVERRIDES.items() if client in override.clients]
    near = difflib.get_close_matches(name, allowed, n=1, cutoff=0.8)
    hint = f"Did you mean {client}.override.{near[0]}? " if near else ""
    return (
        f"A connector may not override {name} of its {client}. {hint}Set {client}.{name} in the "
        "worker's configuration, where it applies to all connectors."
    )


def _in_case_of(choices: Iterable[str], text: str) -> str:
    return next((one for one in choices if one.lower() == text.strip().lower()), text)
