"""The settings of a secured Kafka are written once; Spark authenticates by them too."""

import socket

import pytest

from strom.pipelines.kafka_log import KafkaLog
from strom.pipelines.layers.dead_letters import DeadLetter
from strom.pipelines.spark.reading import read_log


@pytest.mark.slow
@pytest.mark.oracle
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
        rows = read_log(spark, log, "secret", start, end, "g")
        assert [bytes(row.value) for row in rows.collect()] == [b"hello"]
        log.close()
