import pytest

from strom.model.broker_settings import BrokerSettings
from strom.model.errors import ApiError, ErrorCode
from strom.model.group_settings import GroupSettings, check_group_configs
from strom.model.settings import HIDDEN, Kind
from strom.model.topic_settings import TopicSettings


def test_defaults_are_kafkas():
    settings = TopicSettings()
    assert settings.retention_ms == 7 * 24 * 3600 * 1000
    assert settings.segment_bytes == 1024**3
    assert settings.cleanup_policy == ("delete",)
    assert settings.durable, "strom syncs to disk unless told otherwise"


@pytest.mark.parametrize("settings", [TopicSettings(), GroupSettings(), BrokerSettings()])
def test_every_default_passes_its_own_check_and_survives_text(settings):
    for definition, value in settings.items():
        if definition.is_secret:
            continue
        definition.check(value)
        assert definition.parse(definition.render(value)) == value
        assert definition.doc


def test_texts_become_values():
    changed = TopicSettings().override({"retention.ms": "-1", "cleanup.policy": "compact, delete"})
    assert changed.retention_ms == -1
    assert changed.compacted
    assert changed.deleted_by_age_or_size


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("retention.ms", "soon"),
        ("retention.ms", "-2"),
        ("cleanup.policy", "shred"),
        ("retention.ms", str(2**63)),
        ("segment.bytes", str(2**31)),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("segment.bytes", "13"),
        ("preallocate", "maybe"),
        ("no.such.setting", "1"),
    ],
)
def test_a_wrong_text_is_refused_with_the_name_of_the_setting(name, text):
    with pytest.raises(ApiError) as refused:
        TopicSettings().override({name: text})
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert name in refused.value.message


def test_a_broker_setting_gives_topics_their_default():
    broker = BrokerSettings().override({"log.retention.ms": "1000", "num.partitions": "3"})
    assert broker.topic_defaults.retention_ms == 1000
    assert broker.num_partitions == 3
    assert broker.value("log.retention.ms") == 1000
    assert BrokerSettings.definition("log.retention.ms").kind is Kind.LONG


def test_names_are_unique_across_broker_settings_and_topic_defaults():
    own = {definition.name for definition, _ in BrokerSettings().items()}
    assert len(own) == len(list(BrokerSettings().items()))


def test_a_broker_setting_gives_groups_their_default():
    broker = BrokerSettings().override({"group.consumer.session.timeout.ms": "50000"})
    assert broker.group_defaults.consumer_session_timeout_ms == 50_000
    assert broker.value("group.consumer.session.timeout.ms") == 50_000


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("consumer.session.timeout.ms", "44999", "group.consumer.min.session.timeout.ms"),
        ("consumer.session.timeout.ms", "60001", "group.consumer.max.session.timeout.ms"),
        ("consumer.session.timeout.ms", "soon", "consumer.session.timeout.ms"),
        ("no.such.setting", "1", "no.such.setting"),
    ],
)
def test_a_group_setting_stays_within_the_brokers_limits(name, text, what):
    with pytest.raises(ApiError) as refused:
        check_group_configs({name: text}, BrokerSettings())
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert what in refused.value.message
    check_group_configs({"consumer.session.timeout.ms": "60000"}, BrokerSettings())


def test_a_secret_is_never_shown():
    settings = BrokerSettings().override({"amqp.password": "s3cret"})
    definition = BrokerSettings.definition("amqp.password")
    assert settings.amqp_password == "s3cret"
    assert definition.is_secret
    assert definition.render("s3cret") == HIDDEN
    assert "s3cret" not in repr(settings)
