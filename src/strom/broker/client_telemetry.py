"""Client telemetry (KIP-714): which metrics clients push, and the last values that they pushed.

Pure: the time is an argument. Everything is bounded: the clients, the series of each, and the work for
one push. A client that is evicted for others is admitted again at its next request, because the id of its
subscription follows from its attributes alone.
"""

import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from math import isfinite
from typing import NamedTuple
from uuid import UUID

from strom.coordination.metadata.cluster import ClusterMetadata
from strom.metrics.telemetry import ClientMetricReading, TelemetryReading
from strom.model.client_metrics_settings import CLIENT_ATTRIBUTES, ClientMetricsSettings
from strom.model.errors import ApiError, CorruptData, ErrorCode
from strom.model.patterns import UserPattern
from strom.model.settings import MINUTE_MS
from strom.wire.kafka.client_metrics import ClientMetric, read_client_metrics
from strom.wire.kafka.compression import Codec, decompress

MAX_CLIENTS = 1000
MAX_SERIES = 100
"""The limit of series of one client that are kept."""
MAX_ATTRIBUTE_CHARACTERS = 200
MAX_SERIES_ATTRIBUTES = 20
MAX_SERIES_CHARACTERS = 1000
"""The limits of the attributes of one series, together. Clients of Kafka have a handful of short ones."""
EXPIRY_INTERVALS = 3
SHORTEST_EXPIRY_MS = 5 * MINUTE_MS
"""The values of a client are dropped after so many intervals and so much time without a push.

Between two scrapes a client that ends must not vanish with its last values.
"""
ALL_METRICS = "*"
ACCEPTED_CODECS = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
_MAY_SUBSCRIBE_AGAIN = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


class TelemetryClient(NamedTuple):
    """Who sends a request."""

    instance: bytes
    """The id of the client instance, 16 bytes."""
    client_id: str
    peer: str
    """Its address, as in `127.0.0.1:40123`."""


class TelemetrySubscription(NamedTuple):
    """What one client is to push."""

    id: int
    metrics: list[str]
    interval_ms: int


@dataclass
class _Instance:
    """The state of one client, and what it pushed last."""

    client_id: str = ""
    asked_ms: int = -1
    pushed_ms: int = -1
    interval_ms: int = ClientMetricsSettings.interval_ms
    last_error: ErrorCode = ErrorCode.NONE
    is_terminating: bool = False
    values: dict[tuple[str, str], float] = field(default_factory=dict)
    """By name and attributes, so that no series can appear twice."""

    def may_subscribe(self, now_ms: int) -> bool:
        last_ms = max(self.asked_ms, self.pushed_ms)
        is_early = last_ms >= 0 and now_ms - last_ms < self.interval_ms
        return not is_early or self.last_error in _MAY_SUBSCRIBE_AGAIN

    def may_push(self, now_ms: int) -> bool:
        # The first push after a subscription comes at a random time within the interval.
        is_first = self.pushed_ms < 0 or self.asked_ms > self.pushed_ms
        return is_first or now_ms - self.pushed_ms >= self.interval_ms

    def has_expired(self, now_ms: int) -> bool:
        lifetime_ms = max(SHORTEST_EXPIRY_MS, EXPIRY_INTERVALS * self.interval_ms)
        return now_ms - self.pushed_ms > lifetime_ms


class _Matcher(NamedTuple):
    """One subscription of the cluster, ready for use."""

    configs: Mapping[str, str]
    settings: ClientMetricsSettings
    patterns: Mapping[str, UserPattern]


class ClientTelemetry:
    """The clients that push metrics, and what they pushed last."""

    def __init__(self, metadata: ClusterMetadata, *, max_bytes: int, max_series: int) -> None:
        """`max_bytes` limits one push, `max_series` what is exposed of all clients together."""
        self.max_bytes = max_bytes
        self._metadata = metadata
        self._max_series = max_series
        self._instances: OrderedDict[bytes, _Instance] = OrderedDict()
        """By id, in the order of their last requests."""
        self._matchers: dict[str, _Matcher] = {}
        self._software: dict[str, tuple[str, str]] = {}
        self._pushes = self._refused = self._not_kept = 0

    def connected(self, peer: str, name: str, version: str) -> None:
        """Remember the software that a client has named in ApiVersions."""
        self._software[peer] = (name, version)

    def disconnected(self, peer: str) -> None:
        self._software.pop(peer, None)

    def subscribe(self, client: TelemetryClient, now_ms: int) -> TelemetrySubscription:
        """What a client is to push; THROTTLING_QUOTA_EXCEEDED if it asks too often."""
        instance = self._instance(client.instance)
        if not instance.may_subscribe(now_ms):
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        found = self._subscription(client)
        instance.asked_ms = now_ms
        instance.interval_ms = found.interval_ms
        instance.last_error = ErrorCode.NONE
        return found

    def push(
        self,
        client: TelemetryClient,
        subscription_id: int,
        codec: int,
        data: bytes,
        *,
        is_terminating: bool,
        now_ms: int,
    ) -> None:
        """Keep the metrics of a client, or raise the error to respond with."""
        instance = self._instance(client.instance)
        try:
            self._admit(instance, is_terminating, now_ms)
            subscription = self._subscription(client)
            instance.interval_ms = subscription.interval_ms
            if subscription_id != subscription.id:
                raise ApiError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
            found = self._read(codec, data)
        except ApiError as error:
            instance.last_error = error.code
            self._refused += 1
            raise
        self._pushes += 1
        instance.is_terminating = is_terminating
        if not subscription.metrics:
            # Kafka accepts it too, because the id is right. But no subscription asks for these values.
            self._not_kept += len(found)
            found = []
        series = [(one.name, _text(one), one.value) for one in found if isfinite(one.value)]
        values = {(name, text): value for name, text, value in series if text is not None}
        self._not_kept += sum(text is None for _, text, _ in series)
        self._not_kept += max(0, len(values) - MAX_SERIES)
        instance.client_id = client.client_id[:MAX_ATTRIBUTE_CHARACTERS]
        instance.values = dict(islice(values.items(), MAX_SERIES))
        instance.last_error = ErrorCode.NONE

    def _admit(self, instance: _Instance, is_terminating: bool, now_ms: int) -> None:
        if instance.is_terminating:
            raise ApiError(ErrorCode.INVALID_REQUEST, "This client has pushed its last metrics.")
        if not is_terminating and not instance.may_push(now_ms):
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        instance.pushed_ms = now_ms

    def _read(self, codec: int, data: bytes) -> list[ClientMetric]:
        if codec != Codec.NONE and codec not in ACCEPTED_CODECS:
            raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if len(data) > self.max_bytes:
            raise ApiError(ErrorCode.TELEMETRY_TOO_LARGE)
        try:
            # The same limit for what is decompressed: the metrics of one client are small.
            return list(read_client_metrics(decompress(codec, data, self.max_bytes)))
        except CorruptData as error:
            raise ApiError(ErrorCode.INVALID_RECORD, str(error)) from error

    def _instance(self, instance_id: bytes) -> _Instance:
        instance = self._instances.setdefault(instance_id, _Instance())
        self._instances.move_to_end(instance_id)
        if len(self._instances) > MAX_CLIENTS:
            self._instances.popitem(last=False)
        return instance

    # --- subscriptions -------------------------------------------------------------------------

    def _subscription(self, client: TelemetryClient) -> TelemetrySubscription:
        attributes = self._attributes(client)
        matching = [one.settings for one in self._current() if _matches(one, attributes)]
        metrics = sorted({name for one in matching for name in one.metrics})
        if ALL_METRICS in metrics:
            metrics = [ALL_METRICS]
        default = ClientMetricsSettings.interval_ms
        interval_ms = min((one.interval_ms for one in matching), default=default)
        content = repr((client.instance, metrics, interval_ms)).encode()
        signed = zlib.crc32(content) - 2**31
        return TelemetrySubscription(signed, metrics, interval_ms)

    def _attributes(self, client: TelemetryClient) -> dict[str, str]:
        software, version = self._software.get(client.peer, ("", ""))
        host, _, port = client.peer.rpartition(":")
        values = (str(UUID(bytes=client.instance)), client.client_id, software, version, host, port)
        clipped = (value[:MAX_ATTRIBUTE_CHARACTERS] for value in values)
        return dict(zip(CLIENT_ATTRIBUTES, clipped, strict=True))

    def _current(self) -> list[_Matcher]:
        """The subscriptions; each is parsed once, because compiling patterns takes long."""
        before, self._matchers = self._matchers, {}
        for name in self._metadata.client_metrics_subscriptions():
            configs = self._metadata.client_metrics_configs(name)
            known = before.get(name)
            if known is None or known.configs is not configs:
                settings = ClientMetricsSettings().override(configs)
                known = _Matcher(configs, settings, settings.patterns())
            self._matchers[name] = known
        return list(self._matchers.values())

    # --- metrics -------------------------------------------------------------------------------

    def series(self, now_ms: int) -> Iterator[ClientMetricReading]:
        """What clients pushed last, those first that pushed last; as many as may be exposed."""
        exposed = (
            ClientMetricReading(
                instance.client_id,
                str(UUID(bytes=instance_id)),
                *labels,
                value,
            )
            for instance_id, instance in reversed(tuple(self._instances.items()))
            if not instance.has_expired(now_ms)
            for labels, value in tuple(instance.values.items())
        )
        return islice(exposed, self._max_series)

    def counts(self) -> TelemetryReading:
        return TelemetryReading(len(self._instances), self._pushes, self._refused, self._not_kept)


def _matches(matcher: _Matcher, attributes: Mapping[str, str]) -> bool:
    return all(
        pattern.fullmatch(attributes[name]) is not None
        for name, pattern in matcher.patterns.items()
    )


def _text(metric: ClientMetric) -> str | None:
    """The attributes as one label; None if they exceed a limit."""
    if len(metric.attributes) > MAX_SERIES_ATTRIBUTES:
        return None
    text = ",".join(f"{_escaped(name)}={_escaped(value)}" for name, value in metric.attributes)
    return text if len(text) <= MAX_SERIES_CHARACTERS else None


def _escaped(text: str) -> str:
    """So that no value looks like another attribute."""
    return text.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
