"""Settings of groups: described with their sources, changed one by one or as a whole."""

import time
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.consumer_members import GROUP_RESOURCE
from tests.conformance.raw import RawClient

SET, DELETE, APPEND = 0, 1, 2
DEFAULT, DYNAMIC_GROUP = 5, 8
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def alter(client: RawClient, group: str, name: str, operation: int, value: str | None) -> ErrorCode:
    config = {"name": name, "config_operation": operation, "value": value}
    resource = {"resource_type": GROUP_RESOURCE, "resource_name": group, "configs": [config]}
    answer = client.call("incremental_alter_configs", 1, resources=[resource], validate_only=False)
    return ErrorCode(answer.responses[0].error_code)


def describe(client: RawClient, group: str) -> Any:
    resource = {
        "resource_type": GROUP_RESOURCE,
        "resource_name": group,
        "configuration_keys": [SESSION, HEARTBEAT],
    }
    answer = client.call(
        "describe_configs",
        4,
        resources=[resource],
        include_synonyms=True,
        include_documentation=False,
    )
    return answer.results[0]


def values(client: RawClient, group: str) -> dict[str, tuple[str, int]]:
    return {one.name: (one.value, one.config_source) for one in describe(client, group).configs}


def becomes(client: RawClient, group: str, name: str, value: tuple[str, int]) -> bool:
    """Kafka lets a change count a moment after it was answered."""
    deadline = time.monotonic() + 10
    while values(client, group)[name] != value and time.monotonic() < deadline:
        time.sleep(0.02)
    return values(client, group)[name] == value


def test_an_unknown_group_has_the_brokers_settings(client, new_topic_name):
    described = describe(client, new_topic_name())
    assert described.error_code == ErrorCode.none
    session = next(one for one in described.configs if one.name == SESSION)
    assert (session.value, session.config_source, session.read_only) == ("45000", DEFAULT, False)
    assert [(one.name, one.value, one.source) for one in session.synonyms] == [
        ("group.consumer.session.timeout.ms", "45000", DEFAULT)
    ]


def test_a_setting_of_a_group_is_set_and_taken_back(client, new_topic_name):
    group = new_topic_name()
    assert alter(client, group, SESSION, SET, "50000") == ErrorCode.none
    assert becomes(client, group, SESSION, ("50000", DYNAMIC_GROUP))
    assert values(client, group)[HEARTBEAT] == ("5000", DEFAULT)
    assert alter(client, group, SESSION, DELETE, None) == ErrorCode.none
    assert becomes(client, group, SESSION, ("45000", DEFAULT))


def test_all_settings_of_a_group_are_replaced(client, new_topic_name):
    group = new_topic_name()
    assert alter(client, group, HEARTBEAT, SET, "6000") == ErrorCode.none
    assert becomes(client, group, HEARTBEAT, ("6000", DYNAMIC_GROUP))
    resource = {
        "resource_type": GROUP_RESOURCE,
        "resource_name": group,
        "configs": [{"name": SESSION, "value": "51000"}],
    }
    answer = client.call("alter_configs", 2, resources=[resource], validate_only=False)
    assert answer.responses[0].error_code == ErrorCode.none
    assert becomes(client, group, SESSION, ("51000", DYNAMIC_GROUP))
    assert values(client, group)[HEARTBEAT] == ("5000", DEFAULT)


@pytest.mark.parametrize(
    ("name", "operation", "value", "code"),
    [
        (SESSION, SET, "999", ErrorCode.invalid_config),
        (SESSION, SET, "60001", ErrorCode.invalid_config),
        (HEARTBEAT, SET, "99", ErrorCode.invalid_config),
        (HEARTBEAT, SET, "15001", ErrorCode.invalid_config),
        ("consumer.assignment.interval.ms", SET, "-1", ErrorCode.invalid_config),
        ("no.such.setting", SET, "1", ErrorCode.invalid_config),
        (SESSION, SET, "soon", ErrorCode.invalid_config),
        (SESSION, APPEND, "5", ErrorCode.invalid_config),
        (SESSION, SET, None, ErrorCode.invalid_request),
    ],
)
def test_what_a_group_cannot_have_is_refused(client, new_topic_name, name, operation, value, code):
    assert alter(client, new_topic_name(), name, operation, value) == code


def test_there_are_no_settings_for_all_groups(client):
    assert alter(client, "", SESSION, SET, "50000") == ErrorCode.invalid_request
    assert describe(client, "").error_code == ErrorCode.invalid_request
