import uuid

import pytest

from strom.broker.client_telemetry import (
    EXPIRY_INTERVALS,
    MAX_CLIENTS,
    MAX_SERIES,
    MAX_SERIES_ATTRIBUTES,
    MAX_SERIES_CHARACTERS,
    SHORTEST_EXPIRY_MS,
    ClientTelemetry,
    TelemetryClient,
)
from strom.coordination.metadata.cluster import MAX_SUBSCRIPTIONS, ClusterMetadata
from strom.coordination.metadata.records import ClientMetricsConfigs
from strom.model.errors import ApiError, ErrorCode
from strom.wire.kafka.compression import Codec, compress
from tests.wire.kafka.otlp import metric, metrics_data, point

INTERVAL_MS = 1000
MAX_BYTES = 1 << 20


def client(number: int = 1, client_id: str = "app") -> TelemetryClient:
    return TelemetryClient(uuid.UUID(int=number).bytes, client_id, "127.0.0.1:4000")


class World:
    def __init__(self, max_series: int = 1000) -> None:
        self.metadata = ClusterMetadata()
        self.telemetry = ClientTelemetry(self.metadata, max_bytes=MAX_BYTES, max_series=max_series)
        self.now_ms = 10_000

    def configure(self, name: str = "all", **configs: str) -> None:
        texts = {key.replace("_", "."): value for key, value in configs.items()}
        self.metadata.replay(self.metadata.set_client_metrics_configs(name, texts))

    def subscribe(self, who: TelemetryClient):
        return self.telemetry.subscribe(who, self.now_ms)

    def push(self, who, subscription, data=b"", codec=Codec.NONE, *, last=False) -> None:
        self.telemetry.push(
            who, subscription.id, codec, data, is_terminating=last, now_ms=self.now_ms
        )

    def series(self) -> dict[tuple[str, str], float]:
        found = list(self.telemetry.series(self.now_ms))
        values = {(one.client_id, f"{one.metric}{{{one.attributes}}}"): one.value for one in found}
        assert len({one[:4] for one in found}) == len(found), "a series appears twice"
        return values


@pytest.fixture
def world() -> World:
    made = World()
    made.configure(metrics="*", interval_ms=str(INTERVAL_MS))
    return made


def code(raised: pytest.ExceptionInfo[ApiError]) -> ErrorCode:
    return raised.value.code


def test_the_last_push_counts(world):
    subscription = world.subscribe(client())
    world.push(client(), subscription, metrics_data(metric("a", point(1, topic="t"))))
    assert world.series() == {("app", "a{topic=t}"): 1.0}
    world.now_ms += INTERVAL_MS
    world.push(client(), subscription, metrics_data(metric("a", point(2.5)), metric("b", point(3))))
    assert world.series() == {("app", "a{}"): 2.5, ("app", "b{}"): 3.0}


def test_a_number_that_is_pushed_twice_is_one_series(world):
    data = metrics_data(metric("a", point(1), point(2)), metric("a", point(float("nan"))))
    world.push(client(), world.subscribe(client()), data)
    assert world.series() == {("app", "a{}"): 2.0}


@pytest.mark.parametrize(
    ("interval_ms", "lifetime_ms"),
    [(INTERVAL_MS, SHORTEST_EXPIRY_MS), (3_600_000, EXPIRY_INTERVALS * 3_600_000)],
)
def test_values_expire(world, interval_ms, lifetime_ms):
    world.configure(metrics="*", interval_ms=str(interval_ms))
    world.push(client(), world.subscribe(client()), metrics_data(metric("a", point(1))))
    world.now_ms += lifetime_ms
    assert world.series()
    world.now_ms += 1
    assert not world.series()


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_decompression_bomb_is_refused(world, codec):
    bomb = compress(codec, bytes(MAX_BYTES + 1))
    with pytest.raises(ApiError) as raised:
        world.push(client(), world.subscribe(client()), bomb, codec)
    assert code(raised) is ErrorCode.INVALID_RECORD
    assert world.series() == {}


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_every_announced_codec_is_understood(world, codec):
    data = compress(codec, metrics_data(metric("a", point(1))))
    world.push(client(), world.subscribe(client()), data, codec)
    assert world.series() == {("app", "a{}"): 1.0}


def test_series_of_one_client_and_of_all_are_bounded():
    world = World(max_series=MAX_SERIES + 7)
    world.configure(metrics="*")
    many = metrics_data(*(metric(f"m{number}", point(1)) for number in range(MAX_SERIES + 30)))
    for number in (1, 2):
        who = client(number, f"app-{number}")
        world.push(who, world.subscribe(who), many)
    found = [app for app, _ in world.series()]
    assert (found.count("app-2"), found.count("app-1")) == (MAX_SERIES, 7)
    assert world.telemetry.counts().dropped == 60


@pytest.mark.parametrize(
    "attributes",
    [
        {f"k{number}": "v" for number in range(MAX_SERIES_ATTRIBUTES + 1)},
        {f"k{number}": "v" * 199 for number in range(MAX_SERIES_CHARACTERS // 200 + 1)},
    ],
)
def test_a_series_with_too_many_attributes_is_dropped_and_counted(world, attributes):
    data = metrics_data(metric("a", point(1, **attributes), point(2, topic="t")))
    world.push(client(), world.subscribe(client()), data)
    assert world.series() == {("app", "a{topic=t}"): 2.0}
    assert world.telemetry.counts().dropped == 1


def test_no_value_of_an_attribute_looks_like_another_attribute(world):
    data = metrics_data(metric("m", point(1, a="1,b=2"), point(2, a="1", b="2"), point(3, a="\\,")))
    world.push(client(), world.subscribe(client()), data)
    assert world.series() == {
        ("app", r"m{a=1\,b\=2}"): 1.0,
        ("app", "m{a=1,b=2}"): 2.0,
        ("app", r"m{a=\\\,}"): 3.0,
    }


def test_clients_are_bounded_and_an_evicted_one_goes_on(world):
    subscription = world.subscribe(client(0))
    for number in range(1, MAX_CLIENTS + 1):
        world.subscribe(client(number))
    assert world.telemetry.counts().clients == MAX_CLIENTS
    world.push(client(0), subscription, metrics_data(metric("a", point(1))))
    assert world.telemetry.counts().clients == MAX_CLIENTS
    assert world.series() == {("app", "a{}"): 1.0}


def test_clients_match_by_all_their_attributes(world):
    world.configure(
        "mine",
        metrics="x.",
        interval_ms="500",
        match="client_id=a.*,client_software_name=librdkafka",
    )
    who = client()
    assert world.subscribe(who)[1:] == (["*"], INTERVAL_MS)
    world.now_ms += INTERVAL_MS
    world.configure(metrics="y.")
    world.telemetry.connected(who.peer, "librdkafka", "2.0")
    assert world.subscribe(who)[1:] == (["x.", "y."], 500)
    world.now_ms += INTERVAL_MS
    world.telemetry.disconnected(who.peer)
    assert world.subscribe(who)[1:] == (["y."], 300_000)


def test_a_client_that_nothing_matches_pushes_nothing():
    world = World()
    subscription = world.subscribe(client())
    assert subscription.metrics == []
    world.push(client(), subscription, metrics_data(metric("a", point(1))))
    assert world.series() == {}
    assert world.telemetry.counts().dropped == 1


def test_a_changed_subscription_is_unknown_until_the_client_asks_again(world):
    who, subscription = client(), world.subscribe(client())
    world.configure(metrics="x.")
    with pytest.raises(ApiError) as raised:
        world.push(who, subscription)
    assert code(raised) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    world.push(who, world.subscribe(who), last=True)


def test_the_number_of_subscriptions_is_limited():
    world = World()
    for number in range(MAX_SUBSCRIPTIONS):
        world.configure(f"s{number}", metrics="*")
    with pytest.raises(ApiError) as raised:
        world.configure("one too many", metrics="*")
    assert code(raised) is ErrorCode.POLICY_VIOLATION
    world.configure("s0", metrics="x.")
    world.metadata.replay(ClientMetricsConfigs("s0", {}))
    world.configure("another", metrics="*")
