"""Java's client properties in librdkafka's words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.cli.client_settings import parse_assignment, parse_properties, to_librdkafka
from strom.model.errors import UserError


def test_a_properties_file_is_read_as_java_reads_it():
    text = (
        "# a comment\n! another\n\n"
        "security.protocol=SASL_SSL\n"
        "  sasl.mechanism : PLAIN\n"
        "client.id my client\n"
        "empty=\n"
        "long=one,\\\n    two\n"
        "path=C\\:\\\\kafka\\u0021\n"
    )
    assert parse_properties(text) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "client.id": "my client",
        "empty": "",
        "long": "one,two",
        "path": "C:\\kafka!",
    }


@given(st.text())
def test_no_file_makes_the_reader_fail(text):
    parse_properties(text)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z.]{0,20}", fullmatch=True),
        st.from_regex(r"([a-zA-Z0-9/:=,][a-zA-Z0-9 /:=,]*)?", fullmatch=True),
    )
)
def test_what_was_written_is_read(properties):
    text = "".join(f"{name}={value}\n" for name, value in properties.items())
    assert parse_properties(text) == properties


def test_names_that_differ_are_translated():
    translation = to_librdkafka(
        {"fetch.max.wait.ms": "5", "buffer.memory": "1048576", "acks": "all", "key.serializer": "x"}
    )
    assert translation.settings == {
        "fetch.wait.max.ms": "5",
        "queue.buffering.max.kbytes": "1024",
        "acks": "all",
    }
    assert translation.ignored == ("key.serializer",)


def test_java_logins_become_user_and_password():
    jaas = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="ada" password="so \\"secret\\"";'
    )
    assert to_librdkafka({"sasl.jaas.config": jaas}).settings == {
        "sasl.username": "ada",
        "sasl.password": 'so "secret"',
    }


def test_a_login_without_password_is_refused():
    with pytest.raises(UserError, match="username and password"):
        to_librdkafka({"sasl.jaas.config": "Krb5LoginModule required;"})


def test_a_java_key_store_is_refused_with_the_way_out():
    with pytest.raises(UserError, match="PEM"):
        to_librdkafka({"ssl.truststore.location": "/etc/kafka/trust.jks"})


def test_switching_off_host_names_is_understood():
    translation = to_librdkafka({"ssl.endpoint.identification.algorithm": ""})
    assert translation.settings == {"ssl.endpoint.identification.algorithm": "none"}


@pytest.mark.parametrize("text", ["", "name", "=value"])
def test_what_is_no_assignment_is_refused(text):
    with pytest.raises(UserError, match="name=value"):
        parse_assignment(text)


def test_a_properties_file_names_broker_and_settings(strom_at_broker, broker, tmp_path, strom):
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={broker.bootstrap_servers}\nkey.serializer=x\n")
    result = strom("topics", "list", "--command-config", str(file))
    assert result.exit_code == 0
    assert "key.serializer" in result.stderr
