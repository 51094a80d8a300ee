"""Settings: described with value, source and type, changed at once or step by step."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.batches import batch
from tests.conformance.calls import BROKER_RESOURCE, TOPIC_RESOURCE, Topic, cluster, produce
from tests.conformance.raw import RawClient

MakeTopic = Callable[..., Topic]

SET, DELETE, APPEND, SUBTRACT = range(4)
OF_THE_TOPIC, OF_THE_BROKER, OF_ALL_BROKERS, DEFAULT = 1, 2, 3, 5
BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7
WEEK_MS, LONG_MAX = "604800000", str(2**63 - 1)

TOPIC_DEFAULTS = {
    "cleanup.policy": ("delete", LIST),
    "compression.type": ("producer", STRING),
    "delete.retention.ms": ("86400000", LONG),
    "file.delete.delay.ms": ("60000", LONG),
    "flush.messages": (LONG_MAX, LONG),
    "flush.ms": (LONG_MAX, LONG),
    "index.interval.bytes": ("4096", INT),
    "max.compaction.lag.ms": (LONG_MAX, LONG),
    "max.message.bytes": ("1048588", INT),
    "message.timestamp.after.max.ms": ("3600000", LONG),
    "message.timestamp.before.max.ms": (LONG_MAX, LONG),
    "message.timestamp.type": ("CreateTime", STRING),
    "min.cleanable.dirty.ratio": ("0.5", DOUBLE),
    "min.compaction.lag.ms": ("0", LONG),
    "min.insync.replicas": ("1", INT),
    "preallocate": ("false", BOOLEAN),
    "retention.bytes": ("-1", LONG),
    "retention.ms": (WEEK_MS, LONG),
    "segment.bytes": ("1073741824", INT),
    "segment.index.bytes": ("10485760", INT),
    "segment.jitter.ms": ("0", LONG),
    "segment.ms": (WEEK_MS, LONG),
    "unclean.leader.election.enable": ("false", BOOLEAN),
}


def describe(client: RawClient, kind: int, name: str, keys: Any = None, **options: Any) -> Any:
    """What the broker says of one resource."""
    wanted = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    (answer,) = client.call("describe_configs", 4, resources=[wanted], **options).results
    assert (answer.resource_type, answer.resource_name) == (kind, name)
    return answer


def value_of(client: RawClient, topic: Topic, name: str) -> tuple[str, int]:
    """A topic's setting: its value and where it comes from."""
    (found,) = describe(client, TOPIC_RESOURCE, topic.name, [name]).configs
    return found.value, found.config_source


def eventually(client: RawClient, topic: Topic, name: str, expected: tuple[str, int]) -> None:
    """Kafka answers a change before it shows; wait until the setting is as expected."""
    deadline = time.monotonic() + 10
    while value_of(client, topic, name) != expected and time.monotonic() < deadline:
        time.sleep(0.01)
    assert value_of(client, topic, name) == expected


def alter(client: RawClient, name: str, *steps: tuple[str, int, str | None], **options: Any) -> Any:
    """Change single settings of a topic (or of `kind`); the answer."""
    changes = [
        {"name": key, "config_operation": operation, "value": value}
        for key, operation, value in steps
    ]
    kind = options.pop("kind", TOPIC_RESOURCE)
    wanted = {"resource_type": kind, "resource_name": name, "configs": changes}
    usual = {"validate_only": False}
    (answer,) = client.call(
        "incremental_alter_configs", 1, resources=[wanted], **(usual | options)
    ).responses
    assert (answer.resource_type, answer.resource_name) == (kind, name)
    return answer


def replace(client: RawClient, name: str, *settings: tuple[str, str | None], **options: Any) -> Any:
    """Replace all settings of a topic, the old way; the answer."""
    changes = [{"name": key, "value": value} for key, value in settings]
    wanted = {"resource_type": TOPIC_RESOURCE, "resource_name": name, "configs": changes}
    usual = {"validate_only": False}
    return client.call("alter_configs", 2, resources=[wanted], **(usual | options)).responses[0]


def test_every_topic_setting_has_kafkas_default_and_type(
    client: RawClient, make_topic: MakeTopic
) -> None:
    answer = describe(client, TOPIC_RESOURCE, make_topic().name)
    assert answer.error_code == ErrorCode.none
    found = {one.name: (one.value, one.config_type) for one in answer.configs}
    assert {name: found.get(name) for name in TOPIC_DEFAULTS} == TOPIC_DEFAULTS
    assert not any(one.read_only or one.is_sensitive for one in answer.configs)


@pytest.mark.parametrize("name", sorted(TOPIC_DEFAULTS.keys() - {"min.insync.replicas"}))
def test_an_unset_setting_comes_from_the_defaults(
    client: RawClient, make_topic: MakeTopic, name: str
) -> None:
    assert value_of(client, make_topic(), name)[1] == DEFAULT


def test_a_setting_of_the_topic_says_so(client: RawClient, make_topic: MakeTopic) -> None:
    topic = make_topic(configs={"retention.ms": "1000"})
    assert value_of(client, topic, "retention.ms") == ("1000", OF_THE_TOPIC)


def test_only_the_settings_asked_for_are_described(
    client: RawClient, make_topic: MakeTopic
) -> None:
    keys = ["segment.bytes", "no.such.setting", "retention.ms"]
    answer = describe(client, TOPIC_RESOURCE, make_topic().name, keys)
    assert {one.name for one in answer.configs} == {"segment.bytes", "retention.ms"}


def test_synonyms_and_documentation_come_on_request(
    client: RawClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(configs={"cleanup.policy": "compact"})
    (plain,) = describe(client, TOPIC_RESOURCE, topic.name, ["cleanup.policy"]).configs
    assert (plain.synonyms, plain.documentation) == ((), None)
    (told,) = describe(
        client,
        TOPIC_RESOURCE,
        topic.name,
        ["cleanup.policy"],
        include_synonyms=True,
        include_documentation=True,
    ).configs
    assert told.documentation
    assert [(one.name, one.value, one.source) for one in told.synonyms] == [
        ("cleanup.policy", "compact", OF_THE_TOPIC),
        ("log.cleanup.policy", "delete", DEFAULT),
    ]


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC_RESOURCE, "nowhere", ErrorCode.unknown_topic_or_partition),
        (TOPIC_RESOURCE, "a b", ErrorCode.invalid_topic_exception),
        (TOPIC_RESOURCE, "", ErrorCode.invalid_topic_exception),
        (BROKER_RESOURCE, "77", ErrorCode.invalid_request),
        (BROKER_RESOURCE, "one", ErrorCode.invalid_request),
        (7, "x", ErrorCode.invalid_request),
        (0, "x", ErrorCode.invalid_request),
    ],
)
def test_what_cannot_be_described(client: RawClient, kind: int, name: str, code: ErrorCode) -> None:
    answer = describe(client, kind, name)
    assert (answer.error_code, answer.configs) == (code, ())


@pytest.fixture
def broker(client: RawClient) -> str:
    """The broker's id, as configs name it."""
    return str(cluster(client).brokers[0].node_id)


def test_the_brokers_settings_are_described(client: RawClient, broker: str) -> None:
    keys = ["num.partitions", "node.id", "auto.create.topics.enable", "message.max.bytes"]
    answer = describe(client, BROKER_RESOURCE, broker, keys)
    found = {one.name: (one.value, one.config_type) for one in answer.configs}
    assert found == {
        "num.partitions": ("1", INT),
        "node.id": (broker, INT),
        "auto.create.topics.enable": ("true", BOOLEAN),
        "message.max.bytes": ("1048588", INT),
    }
    read_only = {one.name for one in answer.configs if one.read_only}
    assert "node.id" in read_only
    assert "message.max.bytes" not in read_only


def test_setting_and_deleting(client: RawClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    answer = alter(client, topic.name, ("retention.ms", SET, "5000"), ("segment.ms", SET, "60000"))
    assert (answer.error_code, answer.error_message) == (ErrorCode.none, None)
    eventually(client, topic, "retention.ms", ("5000", OF_THE_TOPIC))
    assert value_of(client, topic, "segment.ms") == ("60000", OF_THE_TOPIC)
    alter(client, topic.name, ("retention.ms", DELETE, None))
    eventually(client, topic, "retention.ms", (WEEK_MS, DEFAULT))
    assert value_of(client, topic, "segment.ms") == ("60000", OF_THE_TOPIC)


def test_lists_grow_and_shrink(client: RawClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    for operation, value, expected in (
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "delete", "compact"),
        (SET, "delete", "delete"),
        (APPEND, "compact,delete", "delete,compact"),
    ):
        change = alter(client, topic.name, ("cleanup.policy", operation, value))
        assert change.error_code == ErrorCode.none
        eventually(client, topic, "cleanup.policy", (expected, OF_THE_TOPIC))


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([("retention.ms", APPEND, "5")], ErrorCode.invalid_config),
        ([("retention.ms", SUBTRACT, "5")], ErrorCode.invalid_config),
        ([("retention.ms", SET, None)], ErrorCode.invalid_request),
        ([("no.such.setting", SET, "5")], ErrorCode.invalid_config),
        ([("retention.ms", SET, "5"), ("retention.ms", SET, "6")], ErrorCode.invalid_request),
        ([("segment.ms", SET, "5"), ("retention.ms", SET, "x")], ErrorCode.invalid_config),
    ],
    ids=["append a number", "subtract a number", "null", "unknown", "twice", "one of two"],
)
def test_a_bad_change_is_refused_as_a_whole(
    client: RawClient, make_topic: MakeTopic, steps: Any, code: ErrorCode
) -> None:
    topic = make_topic()
    answer = alter(client, topic.name, *steps)
    assert answer.error_code == code
    assert answer.error_message
    assert value_of(client, topic, "segment.ms") == (WEEK_MS, DEFAULT)


def test_deleting_what_is_not_set_is_fine(client: RawClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    for name in ("retention.ms", "no.such.setting"):
        assert alter(client, topic.name, (name, DELETE, None)).error_code == ErrorCode.none


REFUSED_VALUES = [
    ("cleanup.policy", "none"),
    ("compression.type", "brotli"),
    ("compression.type", "none"),
    ("delete.retention.ms", "-1"),
    ("file.delete.delay.ms", "-1"),
    ("flush.messages", "0"),
    ("index.interval.bytes", "-1"),
    ("max.compaction.lag.ms", "0"),
    ("max.message.bytes", "-1"),
    ("max.message.bytes", "2147483648"),
    ("message.timestamp.type", "x"),
    ("min.cleanable.dirty.ratio", "1.5"),
    ("min.insync.replicas", "0"),
    ("preallocate", "1"),
    ("retention.ms", "-2"),
    ("retention.ms", ""),
    ("retention.ms", "5.0"),
    ("retention.ms", "9223372036854775808"),
    ("segment.bytes", "1048575"),
    ("segment.index.bytes", "3"),
    ("segment.jitter.ms", "-1"),
    ("segment.ms", "0"),
]
ACCEPTED_VALUES = [
    ("cleanup.policy", " compact , delete "),
    ("cleanup.policy", "compact,compact"),
    ("cleanup.policy", ""),
    ("min.cleanable.dirty.ratio", "0.25"),
    ("preallocate", "TRUE"),
    ("retention.bytes", "-2"),
    ("retention.ms", "-1"),
    ("retention.ms", " 5 "),
    ("segment.bytes", "1048576"),
]


@pytest.mark.parametrize(("name", "value"), REFUSED_VALUES)
def test_a_value_that_is_refused(
    client: RawClient, make_topic: MakeTopic, name: str, value: str
) -> None:
    answer = alter(client, make_topic().name, (name, SET, value), validate_only=True)
    assert answer.error_code == ErrorCode.invalid_config
    assert name in answer.error_message


@pytest.mark.parametrize(("name", "value"), ACCEPTED_VALUES)
def test_a_value_that_is_accepted(
    client: RawClient, make_topic: MakeTopic, name: str, value: str
) -> None:
    answer = alter(client, make_topic().name, (name, SET, value), validate_only=True)
    assert answer.error_code == ErrorCode.none


def test_validate_only_changes_nothing(client: RawClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    alter(client, topic.name, ("retention.ms", SET, "77"), validate_only=True)
    replace(client, topic.name, ("retention.ms", "77"), validate_only=True)
    assert value_of(client, topic, "retention.ms") == (WEEK_MS, DEFAULT)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("nowhere", ErrorCode.unknown_topic_or_partition),
        ("a b", ErrorCode.invalid_topic_exception),
    ],
)
def test_a_topic_that_is_not_there_cannot_be_changed(
    client: RawClient, name: str, code: ErrorCode
) -> None:
    assert alter(client, name, ("retention.ms", SET, "5")).error_code == code


def test_a_resource_twice_in_a_request_is_refused(client: RawClient, make_topic: MakeTopic) -> None:
    change = {"name": "retention.ms", "config_operation": SET, "value": "5"}
    wanted = {
        "resource_type": TOPIC_RESOURCE,
        "resource_name": make_topic().name,
        "configs": [change],
    }
    answer = client.call(
        "incremental_alter_configs", 1, resources=[wanted, wanted], validate_only=False
    )
    assert {one.error_code for one in answer.responses} == {ErrorCode.invalid_request}


def test_the_old_way_replaces_everything(client: RawClient, make_topic: MakeTopic) -> None:
    topic = make_topic(configs={"segment.ms": "60000", "retention.ms": "1000"})
    assert replace(client, topic.name, ("retention.ms", "9000")).error_code == ErrorCode.none
    eventually(client, topic, "retention.ms", ("9000", OF_THE_TOPIC))
    eventually(client, topic, "segment.ms", (WEEK_MS, DEFAULT))
    assert replace(client, topic.name).error_code == ErrorCode.none
    eventually(client, topic, "retention.ms", (WEEK_MS, DEFAULT))


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ([("retention.ms", "x")], ErrorCode.invalid_config),
        ([("no.such.setting", "1")], ErrorCode.invalid_config),
        ([("retention.ms", None)], ErrorCode.invalid_request),
        ([("retention.ms", "1"), ("retention.ms", "2")], ErrorCode.invalid_request),
    ],
    ids=["value", "name", "null", "twice"],
)
def test_the_old_way_refuses_the_same(
    client: RawClient, make_topic: MakeTopic, settings: Any, code: ErrorCode
) -> None:
    topic = make_topic(configs={"segment.ms": "60000"})
    assert replace(client, topic.name, *settings).error_code == code
    assert value_of(client, topic, "segment.ms") == ("60000", OF_THE_TOPIC)


def test_a_setting_of_the_broker_is_the_topics_default(
    client: RawClient, make_topic: MakeTopic, broker: str
) -> None:
    topic = make_topic()
    name = "log.cleaner.delete.retention.ms"
    steps = ((broker, "111111", OF_THE_BROKER), ("", "222222", OF_ALL_BROKERS))
    for resource, value, source in steps:
        changed = alter(client, resource, (name, SET, value), kind=BROKER_RESOURCE)
        assert changed.error_code == ErrorCode.none
        eventually(client, topic, "delete.retention.ms", (value, source))
        alter(client, resource, (name, DELETE, None), kind=BROKER_RESOURCE)
        eventually(client, topic, "delete.retention.ms", ("86400000", DEFAULT))


@pytest.mark.parametrize(
    ("resource", "name", "value"),
    [
        ("77", "log.retention.ms", "5"),
        ("one", "log.retention.ms", "5"),
        ("", "node.id", "5"),
        ("", "log.retention.ms", "soon"),
    ],
)
def test_a_bad_change_of_a_broker_is_an_invalid_request(
    client: RawClient, resource: str, name: str, value: str
) -> None:
    answer = alter(client, resource, (name, SET, value), kind=BROKER_RESOURCE)
    assert answer.error_code == ErrorCode.invalid_request
    assert answer.error_message


def test_a_changed_limit_holds_for_the_next_batch(client: RawClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    records = batch(b"x" * 500)
    assert produce(client, topic, records).error_code == ErrorCode.none
    alter(client, topic.name, ("max.message.bytes", SET, "300"))
    eventually(client, topic, "max.message.bytes", ("300", OF_THE_TOPIC))
    assert produce(client, topic, records).error_code == ErrorCode.message_too_large
