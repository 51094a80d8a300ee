"""References to secrets are resolved, and what they stand for is shown nowhere."""

import pytest

from strom.connect.api import InvalidSettings
from strom.connect.runtime.secrets import HIDDEN, Secrets


def test_environment_and_files_are_looked_up(monkeypatch, tmp_path):
    monkeypatch.setenv("STROM_TEST_SECRET", "from-environment")
    properties = tmp_path / "secrets.properties"
    properties.write_text("# a comment\nuser=me\npassword = from=file \n")
    (tmp_path / "token").write_text("whole-file\n")
    resolved = Secrets().resolve(
        {
            "a": "${env:STROM_TEST_SECRET}",
            "b": f"x${{file:{properties}:password}}y",
            "c": f"${{dir:{tmp_path}:token}}",
            "d": f"${{file:{tmp_path}/token}}",
            "plain": "$1 and ${nothing}",
        }
    )
    assert resolved == {
        "a": "from-environment",
        "b": "xfrom=filey",
        "c": "whole-file",
        "d": "whole-file",
        "plain": "$1 and ${nothing}",
    }


def test_what_was_looked_up_is_hidden(monkeypatch):
    monkeypatch.setenv("STROM_TEST_SECRET", "very-secret")
    secrets = Secrets()
    secrets.resolve({"a": "${env:STROM_TEST_SECRET}"})
    assert secrets.hide("login with very-secret failed") == f"login with {HIDDEN} failed"


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("${env:STROM_NO_SUCH_VARIABLE}", "environment variable STROM_NO_SUCH_VARIABLE"),
        ("${file:/no/such/file:key}", "/no/such/file"),
        ("${vault:secret:key}", "Unknown provider"),
    ],
)
def test_a_reference_to_nothing_is_refused_with_the_setting(reference, words):
    with pytest.raises(InvalidSettings) as refused:
        Secrets().resolve({"connection.password": reference})
    assert words in refused.value.problems["connection.password"][0]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("piece", ["${", "${a", "${a:", "${a:b:", "}${a:"])
def test_the_time_to_look_for_references_is_linear_in_the_length_of_a_text(piece):
    """With a pattern that goes back over this much text, the test would not end."""
    text = piece * 200_000
    try:
        assert Secrets().resolve({"a": text}) == {"a": text}
    except InvalidSettings:
        assert "}" in piece
