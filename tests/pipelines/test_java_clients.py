"""The settings of a secured Kafka are written once, and Spark is let in by them too."""

import socket

import pytest

from strom.model.errors import UserError
from strom.pipelines.java_clients import java_client_settings
from strom.pipelines.kafka_log import KafkaLog
from strom.pipelines.layers.dead_letters import DeadLetter
from strom.pipelines.spark.reading import read_log


def test_name_and_password_become_a_login():
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "ada",
        "sasl.password": 'a"b\\c',
        "fetch.wait.max.ms": "10",
    }
    assert java_client_settings(settings) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="ada" password="a\\"b\\\\c";',
    }


def test_certificates_are_handed_over_as_texts(tmp_path):
    (tmp_path / "ca.pem").write_text("the authority")
    settings = {
        "ssl.ca.location": str(tmp_path / "ca.pem"),
        "ssl.certificate.pem": "mine",
        "ssl.key.pem": "secret",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert java_client_settings(settings) == {
        "ssl.truststore.certificates": "the authority",
        "ssl.truststore.type": "PEM",
        "ssl.keystore.certificate.chain": "mine",
        "ssl.keystore.key": "secret",
        "ssl.keystore.type": "PEM",
        "ssl.endpoint.identification.algorithm": "",
    }


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"sasl.mechanism": "GSSAPI"}, "not by GSSAPI"),
        ({"ssl.ca.location": "/no/such/file"}, "/no/such/file cannot be read"),
    ],
)
def test_what_cannot_be_handed_over_is_told(settings, told):
    with pytest.raises(UserError, match=told):
        java_client_settings(settings)


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.timeout(200)
def test_spark_reads_from_a_kafka_that_asks_for_a_password(spark):
    from tools.kafka import RealKafka, UnavailableError, locate

    try:
        locate()
    except UnavailableError as reason:
        pytest.skip(str(reason))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    users = 'username="admin" password="secret" user_admin="secret" user_ada="lovelace"'
    config = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain."
        f"PlainLoginModule required {users};",
    }
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ada",
        "sasl.password": "lovelace",
    }
    with RealKafka(config=config, port=port) as kafka:
        log = KafkaLog(kafka.bootstrap_servers, settings)
        log.create("secret", 1)
        log.send_dead_letters("a", "secret", [DeadLetter(0, 0, None, b"hello", "")])
        start, end = log.starts("secret"), log.ends("secret")
        rows = read_log(
            spark,
            log.servers,
            "secret",
            start,
            end,
            group="g",
            client_settings=log.java_settings,
        )
        assert [bytes(row.value) for row in rows.collect()] == [b"hello"]
        log.close()
