"""Client properties as files and assignments, and their translation between Java and librdkafka."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.client.client_properties import (
    parse_assignment,
    parse_properties,
    to_java,
    to_librdkafka,
)
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


def test_a_pem_store_of_java_is_a_certificate_and_a_key():
    found = to_librdkafka({"ssl.keystore.location": "/me.pem", "ssl.keystore.type": "PEM"}).settings
    assert found == {"ssl.certificate.location": "/me.pem", "ssl.key.location": "/me.pem"}


def test_a_size_that_is_no_number_is_refused_by_name():
    with pytest.raises(UserError, match=r"buffer\.memory must be a number of bytes, not '32M'"):
        to_librdkafka({"buffer.memory": "32M"})


def test_user_and_password_become_a_java_login():
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "ada",
        "sasl.password": 'a"b\\c',
        "fetch.wait.max.ms": "10",
    }
    assert to_java(settings) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="ada" password="a\\"b\\\\c";',
    }


def test_certificates_become_texts_for_java(tmp_path):
    (tmp_path / "ca.pem").write_text("the authority")
    settings = {
        "ssl.ca.location": str(tmp_path / "ca.pem"),
        "ssl.certificate.pem": "mine",
        "ssl.key.pem": "secret",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert to_java(settings) == {
        "ssl.truststore.certificates": "the authority",
        "ssl.truststore.type": "PEM",
        "ssl.keystore.certificate.chain": "mine",
        "ssl.keystore.key": "secret",
        "ssl.keystore.type": "PEM",
        "ssl.endpoint.identification.algorithm": "",
    }


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"sasl.mechanism": "GSSAPI"}, "GSSAPI is not supported"),
        ({"ssl.ca.location": "/no/such/file"}, "/no/such/file cannot be read"),
    ],
)
def test_what_java_cannot_get_is_refused(settings, reason):
    with pytest.raises(UserError, match=reason):
        to_java(settings)


SECURITY = st.fixed_dictionaries(
    {
        "security.protocol": st.sampled_from(["PLAINTEXT", "SSL", "SASL_SSL"]),
        "sasl.mechanism": st.sampled_from(["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]),
        "sasl.username": st.text(),
        "sasl.password": st.text(),
    },
    optional={
        "ssl.ca.pem": st.text(),
        "ssl.certificate.pem": st.text(),
        "ssl.key.pem": st.text(),
        "ssl.key.password": st.text(),
        "ssl.endpoint.identification.algorithm": st.sampled_from(["https", "none"]),
    },
)


@given(SECURITY)
def test_tls_and_sasl_survive_the_way_to_java_and_back(properties):
    assert to_librdkafka(to_java(properties)).settings == properties


@pytest.mark.parametrize("spelling", ["none", "NONE"])
def test_unverified_host_names_are_an_empty_algorithm_in_java(spelling):
    name = "ssl.endpoint.identification.algorithm"
    assert to_java({name: spelling}) == {name: ""}
