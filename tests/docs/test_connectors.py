"""The connectors that the documentation adds are ones that can be added."""

import re
import shlex
from pathlib import Path

import pytest

from strom.connect.runtime.secrets import Secrets
from strom.connect.runtime.settings import WorkerSettings
from strom.connect.runtime.validation import Checker

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "connectors"


def commands():
    found = []
    for page in sorted(FOLDER.glob("*.md")):
        text = page.read_text("utf-8").replace("\\\n", " ")
        lines = re.findall(r"^strom connect add (.*)$", text, re.M)
        found += [pytest.param(line, id=f"{page.name}: {line.split()[0]}") for line in lines]
    return found


def test_there_is_something_to_check():
    assert len(commands()) > 5


@pytest.mark.parametrize("command", commands())
def test_its_settings_are_right(command, monkeypatch):
    for variable in re.findall(r"\$\{env:(\w+)\}", command):
        monkeypatch.setenv(variable, "mongodb://anything")  # an address, where one is wanted
    name, *words = shlex.split(command)
    texts = {"name": name, **dict(word.split("=", 1) for word in words)}
    checker = Checker(WorkerSettings(), {}, Secrets())
    assert checker.common(texts).name == name
    checker.own(texts)
