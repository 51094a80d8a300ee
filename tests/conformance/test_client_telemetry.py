"""Clients push their metrics (KIP-714): the rules on both brokers, and real clients on strom."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from confluent_kafka import Producer
from kio.schema.errors import ErrorCode

from strom.testing import LocalBroker
from tests.conformance.raw import API_KEYS, RawClient
from tests.conformance.test_config_resources import change, wait_until
from tests.conftest import Target
from tools import kafka

OK = ErrorCode.none
THROTTLED = ErrorCode.throttling_quota_exceeded
SETTINGS = {"client.telemetry.enable": "true", "metrics.port": "-1"}
GZIP = 1


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(settings=SETTINGS) as running:
        yield running


@pytest.fixture(params=["strom", pytest.param("kafka", marks=pytest.mark.oracle)])
def listening(request: pytest.FixtureRequest) -> Iterator[RawClient]:
    """A connection to a broker that takes in metrics."""
    if request.param == "strom":
        address = request.getfixturevalue("broker").bootstrap_servers
    else:
        address = request.getfixturevalue("kafka_server").bootstrap_servers
    with RawClient(address) as connection:
        yield connection


def subscribe(client: RawClient, instance: uuid.UUID | None = None) -> Any:
    return client.call("get_telemetry_subscriptions", 0, client_instance_id=instance)


def push(
    client: RawClient,
    instance: uuid.UUID | None,
    subscription: int,
    data: bytes = b"",
    *,
    codec: int = 0,
    last: bool = False,
) -> ErrorCode:
    answer = client.call(
        "push_telemetry",
        0,
        client_instance_id=instance,
        subscription_id=subscription,
        terminating=last,
        compression_type=codec,
        metrics=data,
    )
    code: ErrorCode = answer.error_code
    return code


def test_a_client_gets_an_id_and_what_to_push(listening: RawClient) -> None:
    answer = subscribe(listening)
    assert (answer.error_code, answer.telemetry_max_bytes) == (OK, 1 << 20)
    assert answer.client_instance_id is not None
    assert answer.accepted_compression_types == (4, 3, 1, 2)
    own = uuid.uuid4()
    assert subscribe(listening, own).client_instance_id == own


def test_who_asks_too_often_is_throttled(listening: RawClient) -> None:
    own = uuid.uuid4()
    assert subscribe(listening, own).error_code == OK
    assert subscribe(listening, own).error_code == THROTTLED


def test_who_pushes_too_often_is_throttled(listening: RawClient) -> None:
    found = subscribe(listening)
    own, subscription = found.client_instance_id, found.subscription_id
    assert push(listening, own, subscription) == OK
    assert push(listening, own, subscription) == THROTTLED
    assert push(listening, own, subscription, last=True) == OK
    assert push(listening, own, subscription, last=True) == ErrorCode.invalid_request
    assert push(listening, own, subscription) == ErrorCode.invalid_request


def test_another_subscription_is_unknown_and_may_be_asked_for(listening: RawClient) -> None:
    found = subscribe(listening)
    own, subscription = found.client_instance_id, found.subscription_id
    assert push(listening, own, subscription ^ 1) == ErrorCode.unknown_subscription_id
    assert subscribe(listening, own).subscription_id == subscription
    assert push(listening, uuid.uuid4(), 3) == ErrorCode.unknown_subscription_id


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"codec": 9}, ErrorCode.unsupported_compression_type),
        ({"data": bytes((1 << 20) + 1)}, ErrorCode.telemetry_too_large),
        ({"data": b"no gzip", "codec": GZIP}, ErrorCode.invalid_record),
    ],
)
def test_what_cannot_be_read_is_refused(
    listening: RawClient, fields: dict[str, Any], code: ErrorCode
) -> None:
    found = subscribe(listening)
    assert push(listening, found.client_instance_id, found.subscription_id, **fields) == code


def test_no_push_without_an_id(listening: RawClient) -> None:
    assert push(listening, None, 3) == ErrorCode.invalid_request


def advertised(address: str) -> set[int]:
    with RawClient(address) as client:
        return {one.api_key for one in client.call("api_versions", 0).api_keys}


def test_clients_see_it_only_where_it_is_enabled(broker: LocalBroker, strom_server: Target) -> None:
    keys = {API_KEYS["get_telemetry_subscriptions"], API_KEYS["push_telemetry"]}
    assert keys <= advertised(broker.bootstrap_servers)
    assert not keys & advertised(strom_server.bootstrap_servers)
    with RawClient(strom_server.bootstrap_servers) as client:
        assert subscribe(client).error_code == ErrorCode.unsupported_version
        assert push(client, uuid.uuid4(), 1) == ErrorCode.unsupported_version


def pushed(broker: LocalBroker, client_id: str) -> str:
    """The lines of a scrape about one client."""
    lines = httpx2.get(broker.metrics_url).text.splitlines()
    found = (line for line in lines if line.startswith("strom_client_metric{"))
    return "\n".join(line for line in found if f'client_id="{client_id}"' in line)


@pytest.fixture
def subscribed(broker: LocalBroker, topic: str) -> Iterator[Callable[[str], None]]:
    """Subscribes to all metrics of a client, every 200 ms."""
    with RawClient(broker.bootstrap_servers) as client:

        def start(client_id: str) -> None:
            configs = {"metrics": "*", "interval.ms": "200", "match": f"client_id={client_id}"}
            assert change(client, topic, dict(configs)) == OK

        yield start
        assert change(client, topic, dict.fromkeys(["metrics", "interval.ms", "match"])) == OK


def test_librdkafka_pushes(
    broker: LocalBroker, topic: str, subscribed: Callable[[str], None]
) -> None:
    subscribed("rd-[a-z]+")
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "client.id": "rd-app", "linger.ms": 0}
    )
    producer.produce(topic, b"x")
    assert producer.flush(20) == 0
    wait_until(lambda: "org.apache.kafka.producer" in pushed(broker, "rd-app"))
    assert not pushed(broker, "app")


@pytest.mark.oracle
@pytest.mark.slow
def test_the_java_client_pushes(
    broker: LocalBroker, topic: str, subscribed: Callable[[str], None]
) -> None:
    subscribed("java-app")
    arguments = (
        *("--bootstrap-server", broker.bootstrap_servers, "--topic", topic),
        *("--num-records", "100", "--record-size", "10", "--throughput", "50"),
        *("--command-property", "client.id=java-app"),
    )
    done = kafka.run_tool("org.apache.kafka.tools.ProducerPerformance", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'metric="org.apache.kafka.producer.connection.creation.total"' in pushed(
        broker, "java-app"
    )
