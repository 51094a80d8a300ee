"""References to secrets are resolved, passwords are masked, and neither is shown anywhere."""

import pytest

from strom.connect.api import InvalidSettings
from strom.connect.runtime.secrets import HIDDEN, Secrets, masked, secrets_in, unmasked


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


SECRETS = [
    ("connection.url", "postgresql://me:{}@db:5432/shop", "postgresql://me:[hidden]@db:5432/shop"),
    ("connection.url", "jdbc:postgresql://db/shop?user=me&password={}&ssl=true",
     "jdbc:postgresql://db/shop?user=me&password=[hidden]&ssl=true"),
    ("connection.url", "jdbc:postgresql://db/shop?sslpassword={}",
     "jdbc:postgresql://db/shop?sslpassword=[hidden]"),
    ("connection.uri", "mongodb://me:{}@one,two/?replicaSet=r", "mongodb://me:[hidden]@one,two/?replicaSet=r"),
    ("value.converter.schema.registry.url", "http://a:{0}@b:1,http://c:{0}@d:2",
     "http://a:[hidden]@b:1,http://c:[hidden]@d:2"),
    ("headers", "Accept: text/html | Authorization: Bearer {}",
     "Accept: text/html | Authorization: Bearer {}".replace("Bearer {}", "[hidden]")),
    ("headers", "X-Api-Key: {} | X-Team: a", "X-Api-Key: [hidden] | X-Team: a"),
    ("value.converter.basic.auth.user.info", "me:{}", "[hidden]"),
    ("value.converter.bearer.auth.token", "{}", "[hidden]"),
    ("producer.override.sasl.password", "{}", "[hidden]"),
    ("consumer.override.sasl.jaas.config", 'Module required password="{}";', "[hidden]"),
    ("producer.override.ssl.key.pem", "-----BEGIN {}", "[hidden]"),
    ("producer.override.sasl.oauthbearer.client.secret", "{}", "[hidden]"),
    ("own.setting", "{}", "[hidden]"),
]  # fmt: skip
ids = [f"{name}-{number}" for number, (name, _, _) in enumerate(SECRETS)]


@pytest.mark.parametrize(("name", "text", "public"), SECRETS, ids=ids)
def test_a_secret_is_hidden_and_comes_back(name, text, public):
    config = {name: text.format("s3cr3t@x")}
    to_show = masked(config, {"own.setting"})
    assert to_show == {name: public}
    assert unmasked(to_show, config) == config
    assert all("s3cr3t@x" in secret for secret in secrets_in(config, {"own.setting"}))
    assert list(secrets_in(config, {"own.setting"}))


@pytest.mark.parametrize(("name", "text", "public"), SECRETS, ids=ids)
def test_references_are_no_secrets(name, text, public):
    config = {name: text.format("${env:SHOP}")}
    assert masked(config, {"own.setting"}) == config
    assert list(secrets_in(config, {"own.setting"})) == []


@pytest.mark.parametrize(
    "text",
    ["http://127.0.0.1:8081/x@y", "a:b@c", "sqlite:////tmp/a.db", "host=db port=5432", "@", ""],
)
def test_what_is_no_secret_is_shown(text):
    assert masked({"connection.url": text, "topic": text}) == {
        "connection.url": text,
        "topic": text,
    }


def test_a_changed_text_with_the_mark_is_not_mistaken_for_the_stored_one():
    stored = {"connection.url": "postgresql://me:s3cr3t@db/shop"}
    changed = {"connection.url": "postgresql://me:[hidden]@other/shop"}
    assert unmasked(changed, stored) == changed


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece", ["key", "key:", " ", "|", "| key", "| key : ", "${a:", "?a.", "://a:"]
)
@pytest.mark.parametrize("name", ["headers", "connection.url", "own.password"])
def test_the_time_to_mask_a_text_is_linear_in_its_length(name, piece):
    """With a pattern that goes back over this much text, the test would not end."""
    text = "key:" + piece * 200_000 + "|"
    assert len(masked({name: text})[name]) <= len(text) + len("[hidden]") * 200_000
