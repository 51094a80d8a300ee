"""The connectors that the documentation adds are ones that can be added."""

import re
import shlex
from pathlib import Path

import pytest

from strom.connect.plugins import plugin
from strom.connect.runtime.settings import SinkSettings, SourceSettings

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "connectors"


def commands():
    found = []
    for page in sorted(FOLDER.glob("*.md")):
        text = page.read_text("utf-8").replace("\\\n", " ")
        for line in re.findall(r"^strom connect add (.*)$", text, re.M):
            found.append(pytest.param(line, id=f"{page.name}: {line.split()[0]}"))
    return found


def test_there_is_something_to_check():
    assert len(commands()) > 5


@pytest.mark.parametrize("command", commands())
def test_its_settings_are_right(command):
    _, *words = shlex.split(command)
    texts = dict(word.split("=", 1) for word in words)
    kind = plugin(texts["connector.class"])
    every = SourceSettings if kind.kind == "source" else SinkSettings
    kind.load().settings_class.read(texts, known_elsewhere=every.definitions())
