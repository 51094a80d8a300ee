"""Commands that librdkafka has no call for, at a Kafka that asks for TLS and a password."""

import json

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from strom.cli.connection import SERVERS_VARIABLE
from tests.certificates import make_certificate
from tools.kafka import RealKafka, UnavailableError, locate

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

JAAS = "org.apache.kafka.common.security"
PASSWORD = "ﬁve=£5,🐟"
"""Longer and other after SASLprep, which Kafka does not apply."""


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """A Kafka with users `admin` (PLAIN) and `ada` (SCRAM), and properties to reach it."""
    try:
        locate()
    except UnavailableError as reason:
        pytest.skip(str(reason))
    folder = tmp_path_factory.mktemp("tls")
    made = make_certificate(folder)
    store = folder / "store.pem"
    store.write_bytes(made.key.read_bytes() + made.certificate.read_bytes())
    config = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": f"{JAAS}.plain.PlainLoginModule required "
        'username="admin" password="secret" user_admin="secret";',
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(made.certificate),
    }
    for digits in ("256", "512"):
        config[f"listener.name.plaintext.scram-sha-{digits}.sasl.jaas.config"] = (
            f"{JAAS}.scram.ScramLoginModule required;"
        )
    tls = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(made.certificate)}
    with RealKafka(config=config) as kafka:
        admin = AdminClient(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                **tls,
                "sasl.mechanisms": "PLAIN",
                "sasl.username": "admin",
                "sasl.password": "secret",
            }
        )
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            stored = ScramCredentialInfo(mechanism, 8192)
            user = UserScramCredentialUpsertion("ada", stored, PASSWORD.encode())
            (done,) = admin.alter_user_scram_credentials([user]).values()
            done.result(30)
        yield kafka.bootstrap_servers, {**tls, "sasl.username": "ada", "sasl.password": PASSWORD}


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_transactions_and_groups_are_shown(secured, strom, mechanism):
    servers, properties = secured
    settings = {"bootstrap.servers": servers, **properties, "sasl.mechanisms": mechanism}
    name = f"writer-{mechanism}"
    producer = Producer({**settings, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("clicks", b"open")
    producer.commit_transaction(30)
    consumer = Consumer(
        {**settings, "group.id": f"group-{mechanism}", "group.protocol": "consumer"}
    )
    consumer.subscribe(["clicks"])
    while not consumer.assignment():
        consumer.poll(0.1)

    def call(*arguments):
        given = [
            f"{name}={value}" for name, value in settings.items() if name != "bootstrap.servers"
        ]
        options = [part for one in given for part in ("-X", one)]
        result = strom(*arguments, *options, **{SERVERS_VARIABLE: servers})
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    assert name in {one["name"] for one in call("transactions", "list", "--json")}
    assert call("share-groups", "list", "--json") == []
    (described,) = call("groups", "describe", f"group-{mechanism}", "--json")
    assert described["state"] == "Stable"
    assert described["epoch"] > 0  # librdkafka does not read it
    consumer.close()


def test_a_wrong_password_is_reported_in_one_line(secured, strom):
    servers, properties = secured
    wrong = {**properties, "sasl.mechanism": "SCRAM-SHA-512", "sasl.password": "guessed"}
    options = [part for name, value in wrong.items() for part in ("-X", f"{name}={value}")]
    result = strom("transactions", "list", *options, **{SERVERS_VARIABLE: servers})
    assert result.exit_code == 1
    assert "rejects user 'ada'" in result.stderr
    assert "guessed" not in result.stderr
