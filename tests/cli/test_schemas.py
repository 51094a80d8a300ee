"""`strom schemas` and `strom registry`, as their users call them."""

import json
import signal

import pytest

from strom.cli.schema_diff import differences
from strom.registry.server import RegistryServer

ONE = {
    "type": "record",
    "name": "Click",
    "fields": [{"name": "page", "type": "string"}, {"name": "ms", "type": "int"}],
}
TWO = {
    "type": "record",
    "name": "Click",
    "fields": [
        {"name": "page", "type": "string"},
        {"name": "ms", "type": "long"},
        {"name": "user", "type": "string", "default": ""},
    ],
}
PROTO = 'syntax = "proto3";\nmessage Click {\n  int32 ms = 1;\n}\n'


@pytest.fixture(scope="module")
def url(strom_server):
    with RegistryServer(strom_server.bootstrap_servers, topic="schemas-of-cli") as server:
        yield server.url


@pytest.fixture
def schemas(strom, url):
    return lambda *arguments: strom("schemas", *arguments, STROM_REGISTRY_URL=url)


@pytest.fixture
def subject(topic):
    return f"{topic}-value"


@pytest.fixture
def files(tmp_path):
    made = {}
    for name, content in {
        "one.avsc": json.dumps(ONE),
        "two.avsc": json.dumps(TWO),
        "bad.avsc": '"int"',
        "click.proto": PROTO,
        "click.txt": PROTO,
        "broken.avsc": "{",
    }.items():
        (tmp_path / name).write_text(content)
        made[name] = str(tmp_path / name)
    return made


def test_a_schema_is_registered_shown_and_listed(schemas, subject, files):
    done = schemas("register", files["one.avsc"], "--subject", subject)
    assert done.exit_code == 0
    assert f"version 1 of {subject}" in done.stdout
    assert json.loads(schemas("show", subject).stdout) == ONE
    shown = json.loads(schemas("show", subject, "--json").stdout)
    assert json.loads(schemas("show", "--id", str(shown["id"])).stdout) == ONE
    assert subject in schemas("list").stdout
    listed = json.loads(schemas("list", "--json").stdout)
    assert subject in [one["subject"] for one in listed]


def test_the_language_comes_from_the_ending_or_is_named(schemas, subject, files):
    done = schemas("register", files["click.proto"], "--subject", subject, "--json")
    assert json.loads(done.stdout)["version"] == 1
    again = schemas(
        "register", files["click.txt"], "--subject", subject, "--type", "protobuf", "--json"
    )
    assert json.loads(again.stdout) == json.loads(done.stdout)
    unknown = schemas("register", files["click.txt"], "--subject", subject)
    assert unknown.exit_code == 1
    assert "--type" in unknown.stderr
    assert "message Click" in schemas("show", subject).stdout


def test_check_has_an_exit_code_and_reasons(schemas, subject, files):
    schemas("register", files["one.avsc"], "--subject", subject)
    good = schemas("check", files["two.avsc"], "--subject", subject)
    assert (good.exit_code, "is compatible with" in good.stdout) == (0, True)
    bad = schemas("check", files["bad.avsc"], "--subject", subject)
    assert bad.exit_code == 1
    assert "version 1" in bad.stdout
    told = json.loads(schemas("check", files["bad.avsc"], "--subject", subject, "--json").stdout)
    assert (told["compatible"], len(told["reasons"])) == (False, 1)


def test_diff_names_what_changed(schemas, subject, files):
    for name in ("one.avsc", "two.avsc"):
        schemas("register", files[name], "--subject", subject)
    shown = schemas("diff", subject).stdout
    assert "version 1 → 2" in shown
    assert '~ fields.ms.type  "int" → "long"' in shown
    assert "+ fields.user" in shown
    told = json.loads(schemas("diff", subject, "--from", "2", "--to", "1", "--json").stdout)
    assert [one["sign"] for one in told["differences"]] == ["~", "-"]
    assert "no difference" in schemas("diff", subject, "--from", "2").stdout


def test_mistakes_are_one_line(schemas, strom, subject, files):
    for arguments in (
        ["show", f"{subject}-nobody"],
        ["show", subject, "--version", "x"],
        ["diff", f"{subject}-nobody"],
        ["register", files["broken.avsc"], "--subject", subject],
        ["register", files["one.avsc"], "--subject", subject, "--reference", "x"],
        ["check", files["broken.avsc"], "--subject", subject, "--reference", "A=b:1"],
    ):
        result = schemas(*arguments)
        assert result.exit_code == 1, arguments
        assert len((result.stderr or result.stdout).splitlines()) <= 2, arguments
    schemas("register", files["one.avsc"], "--subject", subject)
    assert "no version before 1" in schemas("diff", subject).stderr
    assert strom("schemas", "show").exit_code == 2
    nobody = strom("schemas", "list", "--url", "http://127.0.0.1:1")
    assert nobody.exit_code == 1
    assert "strom registry" in nobody.stderr


def test_a_reference_is_given_by_name_subject_and_version(schemas, subject, files, tmp_path):
    schemas("register", files["one.avsc"], "--subject", f"{subject}-click")
    using = {"type": "record", "name": "S", "fields": [{"name": "click", "type": "Click"}]}
    (tmp_path / "using.avsc").write_text(json.dumps(using))
    done = schemas(
        "register",
        str(tmp_path / "using.avsc"),
        "--subject",
        subject,
        "--reference",
        f"Click={subject}-click:1",
    )
    assert done.exit_code == 0, done.stderr


def test_lines_of_protobuf_are_compared():
    newer = PROTO.replace("ms = 1;", "ms = 1;\n  string page = 2;")
    assert [str(one) for one in differences(PROTO, newer, "PROTOBUF")] == ["+ string page = 2;"]


def test_lists_without_names_are_compared_as_wholes():
    found = differences('{"enum": [1, 2]}', '{"enum": [1, 3]}', "JSON")
    assert [str(one) for one in found] == ["~ enum  [1, 2] → [1, 3]"]


def test_the_registry_runs_alone_and_ends_cleanly(start_strom):
    process = start_strom("registry", "--port", "0", "--topic", "schemas-alone", "--json")
    ready = json.loads(process.stdout.readline())
    assert ready["registry_url"].startswith("http://127.0.0.1:")
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


def test_a_port_that_is_taken_is_reported(strom, strom_server, url):
    port = url.rpartition(":")[2]
    result = strom("registry", "-b", strom_server.bootstrap_servers, "--port", port)
    assert result.exit_code == 1
    assert "cannot listen" in result.stderr
