"""Host names and addresses in the forms in which headers and settings write them."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.http.hosts import parse_authority, parse_host


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("localhost", "localhost", None),
        ("LocalHost:8083", "localhost", 8083),
        ("localhost.", "localhost", None),
        ("localhost.:8083", "localhost", 8083),
        ("localhost:", "localhost", None),
        ("connect_1.example.com:80", "connect_1.example.com", 80),
        ("127.0.0.1:8083", "127.0.0.1", 8083),
        ("127.0.0.1.", "127.0.0.1", None),
        ("[::1]", "::1", None),
        ("[::1]:8083", "::1", 8083),
        ("[0:0:0:0:0:0:0:1]:8083", "::1", 8083),
        ("[::FFFF:127.0.0.1]", "127.0.0.1", None),
        ("[fe80::1%25eth0]:8083", "fe80::1", 8083),
        ("[fe80::1%eth0]", "fe80::1", None),
    ],
)
def test_every_form_of_a_host_has_one_canonical_form(text, host, port):
    parsed = parse_authority(text)
    assert (parsed.host, parsed.port) == (host, port)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "localhost..",
        "a..b",
        ":8083",
        "::1",
        "::1:8083",
        "[::1",
        "::1]",
        "[]",
        "[localhost]",
        "[::1]x",
        "[::1].",
        "localhost:port",
        "localhost:65536",
        "localhost:-1",
        "localhost:80:80",
        "user@localhost",
        "localhost/",
        "local host",
        "localhost,evil.example",
        "localhost\x00",
        "lоcalhost",  # the second letter is Cyrillic
        "a" * 301,
    ],
)
def test_anything_else_is_no_host(text):
    assert parse_authority(text) is None


@pytest.mark.parametrize("text", ["::1", "[::1]", "fe80::1%eth0", "10.0.0.1", "connect.example."])
def test_settings_write_ipv6_addresses_with_or_without_brackets(text):
    assert parse_host(text) is not None


@pytest.mark.parametrize("text", ["localhost:8083", "[::1]:8083", "http://localhost", "*", ""])
def test_settings_name_hosts_without_scheme_and_port(text):
    assert parse_host(text) is None


@given(st.ip_addresses(), st.none() | st.integers(0, 65535))
def test_every_address_is_read_as_itself(address, port):
    text = f"[{address}]" if address.version == 6 else str(address)
    parsed = parse_authority(text if port is None else f"{text}:{port}")
    mapped = getattr(address, "ipv4_mapped", None)
    assert parsed.port == port
    assert parsed.address == (mapped or address)
    assert ipaddress.ip_address(parsed.host) == parsed.address
