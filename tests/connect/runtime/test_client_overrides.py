"""What a connector may override of its Kafka clients; librdkafka itself judges the table of values."""

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from strom.client.factories import KafkaClients
from strom.connect.api import InvalidSettings
from strom.connect.runtime import client_overrides
from strom.connect.runtime.client_overrides import OVERRIDES, override_problems
from strom.connect.runtime.clients import Clients
from strom.connect.runtime.secrets import Secrets
from strom.connect.runtime.settings import WorkerSettings
from strom.connect.runtime.validation import Checker
from strom.model.settings import Kind

SOURCE = {"name": "c", "connector.class": "FileStreamSource", "file": "/tmp/in.txt", "topic": "t"}
NOBODY = "127.0.0.1:1"

_MAKERS = {
    "producer": lambda settings: Producer(settings),
    "consumer": lambda settings: Consumer({"group.id": "g", **settings}),
    "admin": lambda settings: AdminClient(settings),
}
_BESIDE = {
    # What librdkafka wants of other settings, so that one alone can be judged.
    "sasl.mechanism": {"sasl.username": "u", "sasl.password": "p"},
    "sasl.mechanisms": {"sasl.username": "u", "sasl.password": "p"},
}
_UNJUDGED = {
    "security.protocol",  # needs credentials, or certificates
    "ssl.ca.pem",
    "ssl.certificate.pem",
    "ssl.key.pem",
}


def problem(name, text, client="producer"):
    found = dict(override_problems({f"{client}.override.{name}": text}))
    return found.get(f"{client}.override.{name}")


def is_known_value(client, name, text):
    """Whether librdkafka takes the value for one of this setting, other settings aside."""
    try:
        _MAKERS[client]({"log_level": 0, name: text, **_BESIDE.get(name, {})})
    except KafkaException as error:
        words = error.args[0].str()
        return "Invalid value" not in words and "outside" not in words and "No such" not in words
    return True


JUDGED = [
    (client, name)
    for name, override in OVERRIDES.items()
    for client in sorted(override.clients)
    if name not in _UNJUDGED
]


@pytest.mark.parametrize(("client", "name"), JUDGED)
def test_allowed_values_are_those_of_librdkafka(client, name):
    definition = OVERRIDES[name].definition
    if definition.kind is Kind.INT:
        right = [str(definition.minimum), str(definition.maximum)]
        wrong = [str(definition.minimum - 1), str(definition.maximum + 1), "many"]
    elif definition.kind is Kind.BOOLEAN:
        right, wrong = ["true", "false"], ["sometimes"]
    elif definition.choices:
        right, wrong = list(definition.choices), ["no-such-value"]
    else:
        right, wrong = ["text"], []
    assert [text for text in right if problem(name, text, client) is not None] == []
    assert [text for text in wrong if problem(name, text, client) is None] == []
    assert [text for text in right if not is_known_value(client, name, text)] == []


@pytest.mark.parametrize(
    "name",
    [
        "plugin.library.paths",
        "bootstrap.servers",
        "metadata.broker.list",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.keystore.location",
        "ssl.crl.location",
        "ssl.engine.location",
        "ssl.providers",
        "https.ca.location",
        "enable.ssl.certificate.verification",
        "ssl.endpoint.identification.algorithm",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.principal",
        "sasl.kerberos.keytab",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.assertion.file",
        "sasl.oauthbearer.config",
        "sasl.jaas.config",
        "debug",
        "log_level",
        "log_cb",
        "log.queue",
        "error_cb",
        "oauth_cb",
        "on_delivery",
        "interceptors",
        "statistics.interval.ms",
        "offset.store.path",
        "group.id",
        "group.instance.id",
        "transactional.id",
        "enable.auto.commit",
        "PLUGIN.LIBRARY.PATHS",
        "",
    ],
)
@pytest.mark.parametrize("client", ["producer", "consumer", "admin"])
def test_what_reaches_beyond_the_connector_is_the_workers_to_set(client, name):
    assert f"Set {client}.{name} in the worker's configuration" in problem(name, "x", client)


@pytest.mark.parametrize("mechanism", ["GSSAPI", "OAUTHBEARER"])
def test_mechanisms_that_run_programs_or_fetch_tokens_are_refused(mechanism):
    assert mechanism in problem("sasl.mechanism", mechanism)


def test_the_words_of_security_settings_are_taken_in_any_case():
    assert problem("security.protocol", "SASL_SSL") is None
    assert problem("sasl.mechanism", "scram-sha-512") is None


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("linger.ms", "1_000", "1000"),  # 1 for librdkafka
        ("linger.ms", "010", "10"),  # 8
        ("linger.ms", "\u0663 ", "3"),
        ("enable.idempotence", " TRUE ", "true"),
        ("compression.type", "gzip ", "gzip"),
        ("sasl.mechanism", "scram-sha-512", "SCRAM-SHA-512"),
        ("client.id", " mine ", " mine "),
    ],
)
def test_a_client_gets_the_value_that_was_checked(name, text, value, monkeypatch):
    made: list[dict[str, object]] = []
    monkeypatch.setattr("confluent_kafka.Producer", made.append)
    config = {f"producer.override.{name}": text}
    assert list(override_problems(config)) == []
    Clients(NOBODY).of_connector(config).reporting_producer()
    assert made[0][name] == value
    _MAKERS["producer"]({name: value, **_BESIDE.get(name, {})})


def test_settings_belong_to_their_kind_of_client():
    assert problem("linger.ms", "5", "producer") is None
    assert "of its consumer" in problem("linger.ms", "5", "consumer")
    assert problem("fetch.min.bytes", "5", "consumer") is None
    assert "of its admin" in problem("fetch.min.bytes", "5", "admin")


def test_a_misspelt_setting_is_answered_with_the_nearest():
    assert "Did you mean producer.override.linger.ms?" in problem("linger.mss", "5")
    assert "Did you mean" not in problem("plugin.library.paths", "x")


def test_nothing_is_made_to_validate(monkeypatch):
    def made(*_, **__):
        raise AssertionError("a client was made")

    for name in ("producer", "reporting_producer", "transactional_producer", "consumer", "admin"):
        monkeypatch.setattr(KafkaClients, name, made)
    config = {
        **SOURCE,
        "producer.override.plugin.library.paths": "/tmp/evil.so",
        "consumer.override.client.id": "mine",
        "admin.override.debug": "all",
    }
    found = Checker(WorkerSettings(), {}, Secrets()).problems(config)
    assert set(found) == {"producer.override.plugin.library.paths", "admin.override.debug"}
    assert not hasattr(client_overrides, "Producer")


def test_a_stored_configuration_is_checked_before_a_client_is_made():
    clients = Clients(NOBODY).of_connector(
        {"producer.override.plugin.library.paths": "/tmp/evil.so"}
    )
    for make in (clients.producer, clients.reporting_producer, clients.admin):
        with pytest.raises(InvalidSettings, match=r"plugin\.library\.paths"):
            make()
    with pytest.raises(InvalidSettings, match=r"plugin\.library\.paths"):
        clients.consumer({})


def test_the_worker_itself_may_set_anything():
    with pytest.raises(KafkaException, match="there"):
        Clients(NOBODY, {"producer.plugin.library.paths": "/nowhere/there.so"}).producer()
