"""The names of what has settings, and the settings of client metrics subscriptions (KIP-714)."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.calls import Topic, cluster
from tests.conformance.raw import RawClient
from tests.conformance.sharers import set_group_configs

MakeTopic = Callable[..., Topic]
OK = ErrorCode.none
TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE = 0, 1
DEFAULTS = {"interval.ms": "300000", "match": "", "metrics": ""}
_DEADLINE_S = 10


def listed(client: RawClient, *types: int) -> set[tuple[int, str]]:
    answer = client.call("list_config_resources", 1, resource_types=types)
    assert answer.error_code == OK
    return {(one.resource_type, one.resource_name) for one in answer.config_resources}


def change(
    client: RawClient, name: str, configs: dict[str, str | None], *, validate: bool = False
) -> ErrorCode:
    """Set or (None) delete settings of a client metrics subscription."""
    changes = [
        {"name": key, "config_operation": DELETE if value is None else SET, "value": value}
        for key, value in configs.items()
    ]
    resource = {"resource_type": CLIENT_METRICS, "resource_name": name, "configs": changes}
    (answer,) = client.call(
        "incremental_alter_configs", 1, resources=[resource], validate_only=validate
    ).responses
    code: ErrorCode = answer.error_code
    assert (code == OK) == (not answer.error_message)
    return code


def wait_until(is_so: Callable[[], bool]) -> None:
    """Kafka's brokers learn of a change a little after it was acknowledged."""
    deadline = time.monotonic() + _DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def described(client: RawClient, name: str) -> Any:
    resource = {
        "resource_type": CLIENT_METRICS,
        "resource_name": name,
        "configuration_keys": None,
    }
    return client.call("describe_configs", 4, resources=[resource]).results[0]


def values(client: RawClient, name: str) -> dict[str, str]:
    return {one.name: one.value for one in described(client, name).configs}


def test_topics_and_brokers_are_listed(client: RawClient, make_topic: MakeTopic) -> None:
    topic = make_topic().name
    (broker,) = cluster(client).brokers
    assert (TOPIC, topic) in listed(client, TOPIC)
    assert listed(client, BROKER) == {(BROKER, str(broker.node_id))}
    both = {(TOPIC, topic), (BROKER, str(broker.node_id))}
    assert both <= listed(client, TOPIC, BROKER, TOPIC)
    assert both <= listed(client)


def test_groups_with_settings_of_their_own_are_listed(client: RawClient, topic: str) -> None:
    assert (GROUP, topic) not in listed(client, GROUP)
    assert set_group_configs(client, topic, {"share.auto.offset.reset": "earliest"}) == OK
    wait_until(lambda: (GROUP, topic) in listed(client, GROUP))


@pytest.mark.parametrize("types", [[0], [1], [99], [TOPIC, 99]])
def test_an_unknown_type_of_resource_is_refused(client: RawClient, types: list[int]) -> None:
    answer = client.call("list_config_resources", 1, resource_types=types)
    assert (answer.error_code, answer.config_resources) == (ErrorCode.unsupported_version, ())


def test_a_client_metrics_subscription_is_listed_until_it_has_no_settings(
    client: RawClient, topic: str
) -> None:
    assert values(client, topic) == DEFAULTS
    configs = {"metrics": "org.apache.kafka.", "interval.ms": "1000", "match": "client_id=a.*"}
    assert change(client, topic, dict(configs)) == OK
    wait_until(lambda: values(client, topic) == configs)
    assert listed(client, CLIENT_METRICS) >= {(CLIENT_METRICS, topic)}
    assert (CLIENT_METRICS, topic) in listed(client)
    old = client.call("list_config_resources", 0)
    assert topic in {one.resource_name for one in old.config_resources}
    assert {one.config_source for one in described(client, topic).configs} == {7}
    assert change(client, topic, dict.fromkeys(configs)) == OK
    wait_until(lambda: values(client, topic) == DEFAULTS)
    assert (CLIENT_METRICS, topic) not in listed(client, CLIENT_METRICS)


@pytest.mark.parametrize(
    ("setting", "value", "code"),
    [
        ("interval.ms", "100", OK),
        ("interval.ms", "3600000", OK),
        ("interval.ms", "99", ErrorCode.invalid_request),
        ("interval.ms", "3600001", ErrorCode.invalid_request),
        ("interval.ms", "soon", ErrorCode.invalid_config),
        ("match", "", OK),
        ("match", "client_id=a,client_id=b", OK),
        ("match", "client_source_port=1, client_instance_id=x", OK),
        ("match", "client_id", ErrorCode.invalid_config),
        ("match", "client_id=", ErrorCode.invalid_config),
        ("match", "client_id=(", ErrorCode.invalid_config),
        ("match", "height=1", ErrorCode.invalid_config),
        ("metrics", "*", OK),
        ("metrics", "", OK),
    ],
)
def test_settings_of_a_subscription_are_checked(
    client: RawClient, topic: str, setting: str, value: str, code: ErrorCode
) -> None:
    assert change(client, topic, {setting: value}, validate=True) == code
    assert (CLIENT_METRICS, topic) not in listed(client, CLIENT_METRICS)


def test_a_subscription_has_a_name(client: RawClient) -> None:
    assert change(client, "", {"metrics": "*"}) == ErrorCode.invalid_request
    assert described(client, "").error_code == ErrorCode.invalid_request
