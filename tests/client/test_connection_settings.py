"""One description of how to connect: addresses, TLS and SASL."""

import ssl

import pytest

from strom.client.client_properties import to_java
from strom.client.connection_settings import ConnectionSettings
from strom.model.errors import UserError


def settings(**properties):
    return ConnectionSettings(
        "b:9092", {name.replace("_", "."): v for name, v in properties.items()}
    )


@pytest.mark.parametrize(
    ("servers", "addresses"),
    [
        ("b:1", [("b", 1)]),
        (" a:1, SASL_SSL://b:2 ", [("a", 1), ("b", 2)]),
        ("b", [("b", 9092)]),
        ("[::1]:7", [("::1", 7)]),
        ("[::1]", [("::1", 9092)]),
    ],
)
def test_servers_are_hosts_and_ports(servers, addresses):
    assert ConnectionSettings(servers).addresses() == addresses


@pytest.mark.parametrize("servers", ["b:", "b:x", "b:0", "b:65536", "a:1,,b:x"])
def test_what_is_no_address_is_refused(servers):
    with pytest.raises(UserError, match="HOST:PORT"):
        ConnectionSettings(servers).addresses()


def test_no_secret_is_in_the_repr():
    given = settings(sasl_password="hidden", ssl_key_pem="hidden", sasl_username="hidden")
    assert "hidden" not in repr(given)
    assert given.sasl_password == "hidden"


def test_plain_connections_need_neither_tls_nor_sasl():
    plain = ConnectionSettings("b:1")
    assert (plain.security_protocol, plain.sasl_mechanism, plain.ssl_context()) == (
        "PLAINTEXT",
        None,
        None,
    )


def test_an_unknown_security_protocol_is_refused():
    with pytest.raises(UserError, match="TLS; it must be one of PLAINTEXT, SSL"):
        _ = settings(security_protocol="tls").security_protocol


def test_the_default_mechanism_never_sends_a_password_in_the_clear():
    assert settings(security_protocol="sasl_plaintext").sasl_mechanism == "GSSAPI"


@pytest.mark.parametrize("name", ["sasl_mechanism", "sasl_mechanisms"])
def test_both_names_of_the_mechanism_are_known(name):
    given = settings(**{"security_protocol": "SASL_SSL", name: "scram-sha-256"})
    assert given.sasl_mechanism == "SCRAM-SHA-256"


@pytest.mark.parametrize("last", ["sasl.mechanism", "sasl.mechanisms"])
def test_of_both_names_of_the_mechanism_the_last_one_wins_as_in_librdkafka(last):
    first = {"sasl.mechanism", "sasl.mechanisms"} - {last}
    given = {**dict.fromkeys(first, "PLAIN"), last: "SCRAM-SHA-512"}
    settings = ConnectionSettings("a", {"security.protocol": "SASL_PLAINTEXT", **given})
    assert settings.sasl_mechanism == "SCRAM-SHA-512"
    assert to_java(settings.properties)["sasl.mechanism"] == "SCRAM-SHA-512"


def test_certificates_and_host_names_are_verified_by_default():
    context = settings(security_protocol="ssl").ssl_context()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_host_names_can_be_left_unverified():
    context = settings(
        security_protocol="ssl", ssl_endpoint_identification_algorithm="none"
    ).ssl_context()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, False)


def test_certificates_can_be_left_unverified():
    context = settings(
        security_protocol="sasl_ssl", enable_ssl_certificate_verification="false"
    ).ssl_context()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)


@pytest.mark.parametrize(
    "given",
    [
        {"ssl_ca_location": "/no/such/file"},
        {"ssl_ca_pem": "hidden"},
        {"ssl_certificate_pem": "hidden", "ssl_key_pem": "hidden"},
        {"ssl_certificate_location": "/no/such/file"},
        {"ssl_keystore_location": "/me.p12"},
    ],
)
def test_what_cannot_be_used_for_tls_is_refused_by_its_name_without_its_value(given):
    with pytest.raises(
        UserError, match=next(iter(given)).rpartition("_")[0].replace("_", ".")
    ) as e:
        settings(security_protocol="ssl", **given).ssl_context()
    assert "hidden" not in str(e.value)
