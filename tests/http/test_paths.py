"""Paths and their segments."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.http.errors import HttpError
from strom.http.hosts import format_authority, parse_authority
from strom.http.paths import path_of_target, split_path

HOSTS = ("localhost:8081",)


@pytest.mark.parametrize(
    ("sent", "path"),
    [
        ("/", "/"),
        ("/a/", "/a"),
        ("/a%2Fb", "/a%2Fb"),
        ("//a", "//a"),
        ("http://localhost:8081/a", "/a"),
        ("http://LOCALHOST.:8081", "/"),
    ],
)
def test_the_path_stays_encoded(sent, path):
    assert path_of_target(sent, HOSTS) == path


@pytest.mark.parametrize(
    "sent",
    ["/%", "/%2", "/%g0", "/%ff", "a", "*", "ftp://localhost:8081/", "http://[/", "http://other/a"],
)
def test_malformed_targets_are_refused(sent):
    with pytest.raises(HttpError) as caught:
        path_of_target(sent, HOSTS)
    assert caught.value.status == 400


def test_segments_are_decoded_one_by_one():
    assert split_path("/api/queues/%2F/a%20b//c") == ("api", "queues", "/", "a b", "c")


@given(st.text(max_size=50))
def test_any_target_is_accepted_or_refused(sent):
    with contextlib.suppress(HttpError):
        assert path_of_target(sent, HOSTS)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]"])
def test_an_authority_is_read_as_it_was_written(host):
    parsed = parse_authority(format_authority(host, 8081))
    assert (parsed.host, parsed.port) == (host.strip("[]"), 8081)
