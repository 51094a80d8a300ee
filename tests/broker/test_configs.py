import asyncio

import pytest

from strom.broker import configs
from strom.broker.configs import ConfigChange, ConfigOperation, ResourceType, Source, apply_changes
from strom.model.errors import ApiError, ErrorCode
from strom.model.topic_settings import TopicSettings
from tests.broker.opened import opened

DEFINITIONS = TopicSettings.definitions()


def changed(current: dict[str, str], *changes: ConfigChange) -> dict[str, str]:
    return apply_changes(current, changes, {"cleanup.policy": "delete"}, DEFINITIONS)


def test_settings_are_set_and_deleted():
    assert changed({}, ConfigChange("retention.ms", ConfigOperation.SET, "5")) == {
        "retention.ms": "5"
    }
    assert (
        changed({"retention.ms": "5"}, ConfigChange("retention.ms", ConfigOperation.DELETE, None))
        == {}
    )


def test_lists_are_appended_to_and_subtracted_from_what_is_inherited():
    assert changed({}, ConfigChange("cleanup.policy", ConfigOperation.APPEND, "compact")) == {
        "cleanup.policy": "delete,compact"
    }
    both = {"cleanup.policy": "delete,compact"}
    assert changed(both, ConfigChange("cleanup.policy", ConfigOperation.SUBTRACT, "delete")) == {
        "cleanup.policy": "compact"
    }
    assert changed(both, ConfigChange("cleanup.policy", ConfigOperation.APPEND, "compact")) == both


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([ConfigChange("nonsense", ConfigOperation.SET, "1")], ErrorCode.INVALID_CONFIG),
        ([ConfigChange("retention.ms", ConfigOperation.APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([ConfigChange("retention.ms", ConfigOperation.SET, None)], ErrorCode.INVALID_REQUEST),
        ([ConfigChange("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST),
        ([ConfigChange("retention.ms", ConfigOperation.SET, "1")] * 2, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_wrong_change_is_refused(changes, code):
    with pytest.raises(ApiError) as refused:
        changed({}, *changes)
    assert refused.value.code is code


def test_a_description_has_the_source_of_the_value():
    async def test():
        async with opened() as world:
            broker = world.broker
            await broker.create_topic("t", 1, {"retention.ms": "5"})
            await broker.set_broker_configs(None, {"log.retention.ms": "7", "log.roll.ms": "9"})
            entries = {each.definition.name: each for each in configs.describe_topic(broker, "t")}
            retention = entries["retention.ms"]
            assert (retention.value, retention.source) == ("5", Source.DYNAMIC_TOPIC)
            assert [each.value for each in retention.synonyms[:2]] == ["5", "7"]
            segment = entries["segment.ms"]
            assert (segment.value, segment.source) == ("9", Source.DYNAMIC_DEFAULT_BROKER)
            assert entries["flush"].source is Source.DEFAULT
            assert broker.topic("t").settings.segment_ms == 9, "and it counts"

    asyncio.run(test())


def test_a_setting_of_the_start_cannot_be_changed_while_running():
    async def test():
        async with opened() as world:
            with pytest.raises(ApiError) as refused:
                await configs.change_settings(
                    world.broker,
                    ResourceType.BROKER,
                    "1",
                    [ConfigChange("port", ConfigOperation.SET, "1234")],
                    only_check=False,
                )
            assert refused.value.code is ErrorCode.INVALID_REQUEST

    asyncio.run(test())


@pytest.mark.parametrize("only_check", [True, False])
def test_only_checking_changes_nothing(only_check):
    async def test():
        async with opened() as world:
            await world.broker.create_topic("t", 1, {})
            await configs.change_settings(
                world.broker,
                ResourceType.TOPIC,
                "t",
                [ConfigChange("retention.ms", ConfigOperation.SET, "5")],
                only_check=only_check,
            )
            assert (world.broker.topic("t").settings.retention_ms == 5) != only_check

    asyncio.run(test())
