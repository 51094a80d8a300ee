"""The installer: pip's configuration in uv's words, and two lists that agree."""

import os
import re
import sys

import pytest

from tools import install
from tools.install import ROOT, pinned_lines, pip_settings, uv_settings


def pins(name):
    """The packages of a list with their versions. One may have several, for several Pythons."""
    text = (ROOT / "requirements" / name).read_text()
    return set(re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE))


def test_the_demo_gets_the_versions_that_are_tested():
    demo, dev = pins("demo.txt"), pins("dev.txt")
    assert len(demo) > 20
    assert demo <= dev


def test_both_lists_hold_the_installer():
    for name in ("demo.txt", "dev.txt"):
        lines = pinned_lines((ROOT / "requirements" / name).read_text(), "uv")
        assert lines.startswith("uv==")
        assert "--hash=sha256:" in lines
        assert lines.count("==") == 1


def test_a_package_that_is_not_pinned_has_no_lines():
    assert pinned_lines("uvicorn==1 \\\n    --hash=sha256:0\n", "uv") == ""


def test_a_later_section_of_pips_settings_overrides():
    lines = [
        "global.index-url='https://one.example/simple'",
        ":env:.index-url='https://three.example/simple'",
        "install.index-url='https://two.example/simple'",
        "install.no-index='true'",
        "freeze.timeout='10'",
        "no settings",
    ]
    assert pip_settings(lines) == {
        "index-url": "https://three.example/simple",
        "no-index": "true",
    }


def test_uv_gets_the_options_of_pip():
    pip = {
        "index-url": "https://one.example/simple",
        "extra-index-url": "\nhttps://two.example/simple\nhttps://three.example/simple",
        "find-links": "/wheels https://four.example",
        "no-index": "1",
        "trusted-host": "one.example two.example",
        "default-timeout": "180",
        "cert": "/etc/ca.pem",
        "proxy": "http://proxy.example:3128",
    }
    assert uv_settings(pip) == {
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_DEFAULT_INDEX": "https://one.example/simple",
        "UV_INDEX": "https://two.example/simple https://three.example/simple",
        "UV_FIND_LINKS": "/wheels,https://four.example",
        "UV_NO_INDEX": "true",
        "UV_INSECURE_HOST": "one.example two.example",
        "UV_HTTP_TIMEOUT": "180",
        "SSL_CERT_FILE": "/etc/ca.pem",
        "ALL_PROXY": "http://proxy.example:3128",
    }
    assert uv_settings({}) == {"UV_INDEX_STRATEGY": "unsafe-best-match"}


@pytest.fixture
def run(monkeypatch):
    """Runs no command, but records it; those that contain a word of `failing` fail."""
    commands: list[tuple[str, ...]] = []
    failing: set[str] = set()

    def record(*command, env, quietly=False):
        commands.append(command)
        return failing.isdisjoint(command)

    monkeypatch.setattr(install, "_install_uv", lambda _: True)
    monkeypatch.setattr(install, "_run", record)
    return commands, failing


def test_uv_installs_into_this_environment_with_any_variables(run):
    commands, _ = run
    assert install.main(["requirements/demo.txt"]) == 0
    assert len(commands) == 2
    for command in commands:  # UV_SYSTEM_PYTHON and UV_PYTHON name another one otherwise
        assert command[command.index("--python") + 1] == sys.executable


def test_what_the_cache_does_not_hold_comes_from_the_index(run):
    commands, failing = run
    failing.add("--offline")
    assert install.main(["requirements/demo.txt"]) == 0
    assert ["--offline" in command for command in commands] == [True, False, False]
    assert all("--require-hashes" in command for command in commands[:2])


def test_pip_installs_where_uv_fails(run):
    commands, failing = run
    failing.add("uv")
    assert install.main(["requirements/demo.txt"]) == 0
    assert [command[2] for command in commands] == ["uv", "uv", "pip", "pip"]


def test_a_long_command_reports_its_progress(monkeypatch, capsys):
    monkeypatch.setattr(install, "PROGRESS_S", 0.001)  # no Python starts and ends as fast as that
    assert not install._run(sys.executable, "-c", "exit(3)", env=os.environ, quietly=True)
    assert "… 0 s" in capsys.readouterr().out
