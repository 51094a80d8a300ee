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
from typing import Any

from strom.connect.runtime.settings import OVERRIDE_PREFIXES, with_prefix
from strom.model.errors import ApiError
from strom.model.settings import DAY_MS, HOUR_MS, INT_MAX, MINUTE_MS, Definition, Kind

PRODUCER, CONSUMER, ADMIN = "producer", "consumer", "admin"
_ALL = frozenset({PRODUCER, CONSUMER, ADMIN})
_PRODUCER, _CONSUMER = frozenset({PRODUCER}), frozenset({CONSUMER})

_FIVE_MINUTES_MS = 5 * MINUTE_MS
_FIFTEEN_MINUTES_MS = 15 * MINUTE_MS
_BILLION = 1_000_000_000


@dataclass(frozen=True)
class Override:
    """A client setting that a connector may override."""

    definition: Definition
    clients: frozenset[str]

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


def _overrides(clients: frozenset[str], kind: Kind, *names: str, **bounds: Any) -> list[Override]:
    """Overrides of the same kind and bounds."""
    return [
        Override(Definition(name=name, kind=kind, default=None, doc="", **bounds), clients)
        for name in names
    ]


def _text(*names: str, kind: Kind = Kind.STRING) -> list[Override]:
    return _overrides(_ALL, kind, *names)


def _flags(clients: frozenset[str], *names: str) -> list[Override]:
    return _overrides(clients, Kind.BOOLEAN, *names)


def _numbers(clients: frozenset[str], minimum: int, maximum: int, *names: str) -> list[Override]:
    return _overrides(clients, Kind.INT, *names, minimum=minimum, maximum=maximum)


def _choices(clients: frozenset[str], choices: tuple[str, ...], *names: str) -> list[Override]:
    return _overrides(clients, Kind.STRING, *names, choices=choices)


_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_PARTITIONERS = (
    *("random", "consistent", "consistent_random", "murmur2", "murmur2_random"),
    *("fnv1a", "fnv1a_random"),
)
# GSSAPI runs a program, and OAUTHBEARER fetches tokens from an address.
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_IN_ANY_CASE = frozenset({"security.protocol", "sasl.mechanism", "sasl.mechanisms"})
_DNS_LOOKUPS = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")
_RESETS = ("smallest", "earliest", "beginning", "largest", "latest", "end", "error")

_OVERRIDES = (
    *_text("client.id", "client.rack"),
    # Connection and authentication. Certificates and keys come as PEM text, never as files.
    *_choices(_ALL, ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"), "security.protocol"),
    *_choices(_ALL, _MECHANISMS, "sasl.mechanism", "sasl.mechanisms"),
    *_text("sasl.username", "ssl.ca.pem", "ssl.certificate.pem"),
    *_text("sasl.password", "ssl.key.pem", "ssl.key.password", kind=Kind.PASSWORD),
    *_choices(_ALL, ("any", "v4", "v6"), "broker.address.family"),
    *_choices(_ALL, _DNS_LOOKUPS, "client.dns.lookup"),
    *_flags(_ALL, "socket.keepalive.enable", "socket.nagle.disable"),
    *_numbers(_ALL, 10, _FIVE_MINUTES_MS, "socket.timeout.ms"),
    *_numbers(_ALL, 1000, INT_MAX, "socket.connection.setup.timeout.ms"),
    *_numbers(_ALL, 0, 100_000_000, "socket.send.buffer.bytes", "socket.receive.buffer.bytes"),
    *_numbers(_ALL, 0, INT_MAX, "connections.max.idle.ms"),
    *_numbers(_ALL, 0, HOUR_MS, "reconnect.backoff.ms", "reconnect.backoff.max.ms"),
    *_numbers(_ALL, 1, _FIVE_MINUTES_MS, "retry.backoff.ms", "retry.backoff.max.ms"),
    *_numbers(_ALL, 1, DAY_MS, "metadata.max.age.ms"),
    *_numbers(_ALL, -1, HOUR_MS, "topic.metadata.refresh.interval.ms"),
    *_numbers(_ALL, 1000, _BILLION, "message.max.bytes"),
    *_numbers(_ALL, 1000, INT_MAX, "receive.message.max.bytes"),
    # Producers: batches, compression, timeouts and retries.
    *_choices(_PRODUCER, ("all", "-1", "0", "1"), "acks"),
    *_flags(_PRODUCER, "enable.idempotence"),
    *_choices(_PRODUCER, _PARTITIONERS, "partitioner"),
    *_choices(_PRODUCER, _CODECS, "compression.type", "compression.codec"),
    *_numbers(_PRODUCER, -1, 12, "compression.level"),
    *_numbers(_PRODUCER, 1, INT_MAX, "batch.size", "queue.buffering.max.kbytes"),
    *_numbers(_PRODUCER, 1, 1_000_000, "batch.num.messages", "max.in.flight"),
    *_numbers(_PRODUCER, 1, 1_000_000, "max.in.flight.requests.per.connection"),
    *_numbers(_PRODUCER, 0, _FIFTEEN_MINUTES_MS, "linger.ms", "queue.buffering.max.ms"),
    *_numbers(_PRODUCER, 0, _FIFTEEN_MINUTES_MS, "sticky.partitioning.linger.ms"),
    *_numbers(_PRODUCER, 1, _FIFTEEN_MINUTES_MS, "request.timeout.ms"),
    *_numbers(_PRODUCER, 0, INT_MAX, "delivery.timeout.ms", "message.timeout.ms"),
    *_numbers(_PRODUCER, 0, INT_MAX, "retries", "message.send.max.retries"),
    *_numbers(_PRODUCER, 0, INT_MAX, "queue.buffering.max.messages"),
    *_numbers(_PRODUCER, 1000, INT_MAX, "transaction.timeout.ms"),
    # Consumers: what is read, how much at once, and when a member is evicted.
    *_choices(_CONSUMER, _RESETS, "auto.offset.reset"),
    *_choices(_CONSUMER, ("read_uncommitted", "read_committed"), "isolation.level"),
    *_flags(_CONSUMER, "check.crcs"),
    *_numbers(_CONSUMER, 1, 100_000_000, "fetch.min.bytes"),
    *_numbers(_CONSUMER, 0, INT_MAX - 512, "fetch.max.bytes"),
    *_numbers(_CONSUMER, 0, _FIVE_MINUTES_MS, "fetch.wait.max.ms"),
    *_numbers(_CONSUMER, 0, _FIVE_MINUTES_MS, "fetch.queue.backoff.ms", "fetch.error.backoff.ms"),
    *_numbers(_CONSUMER, 1, _BILLION, "fetch.message.max.bytes", "max.partition.fetch.bytes"),
    *_numbers(_CONSUMER, 1, 10_000_000, "queued.min.messages"),
    *_numbers(_CONSUMER, 1, 2_097_151, "queued.max.messages.kbytes"),
    *_numbers(_CONSUMER, 1, DAY_MS, "max.poll.interval.ms"),
    *_numbers(_CONSUMER, 1, HOUR_MS, "session.timeout.ms", "heartbeat.interval.ms"),
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
                continue
            try:
                override.parse(text)
            except ApiError as error:
                yield prefix + name, f"{prefix}{name}: {error}"


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
