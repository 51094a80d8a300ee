"""Connectors by their names: strom's own, and those of installed packages."""

import logging
import sys

import pytest

from strom.connect import plugins as module
from strom.connect.api import InvalidSettings
from strom.connect.plugins import plugin, plugins


class BrokenEntry:
    name = "Broken"
    value = "broken:Connector"

    def load(self):
        raise ImportError("no module named broken_driver")


@pytest.fixture
def fresh():
    def forget():
        module.plugins.cache_clear()
        module._by_any_name.cache_clear()

    forget()
    yield
    forget()


def test_a_package_that_is_broken_hides_no_other(fresh, monkeypatch, caplog):
    monkeypatch.setattr(module, "entry_points", lambda group: [BrokenEntry()])
    with caplog.at_level(logging.WARNING):
        assert "Broken" not in plugins()
    assert "FileStreamSource" in plugins()
    assert "no module named broken_driver" in caplog.text


@pytest.mark.parametrize(
    "name", ["FileStreamSink", "org.apache.kafka.connect.file.FileStreamSinkConnector"]
)
def test_short_and_long_names_mean_the_same(name):
    assert plugin(name).name == "FileStreamSink"


def test_the_nearest_right_name_is_offered():
    with pytest.raises(InvalidSettings, match="Did you mean FileStreamSink"):
        plugin("FileStreamSnk")


MARKING = "tests.connect.runtime.marking:Marking"


@pytest.mark.parametrize("package", ["tests", "tests.connect", "tests.connect.runtime.marking"])
def test_a_class_is_imported_by_its_place_if_its_package_is_named(package):
    assert plugin(MARKING, ["other", package]).load().__name__ == "Marking"


@pytest.mark.parametrize(
    "packages",
    [(), ("test",), ("tests.connec",), ("tests.connect.runtime.marking.below",), ("marking",)],
)
def test_a_class_of_any_other_package_is_refused(packages):
    with pytest.raises(InvalidSettings, match=r"plugin\.packages"):
        plugin(MARKING, packages)


@pytest.mark.parametrize("name", ["planted:Evil", ":Evil", ".planted:Evil", "tests..planted:Evil"])
def test_nothing_is_imported_to_refuse_it(name, tmp_path, monkeypatch):
    (tmp_path / "planted.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InvalidSettings):
        plugin(name, ["tests"])
    assert "planted" not in sys.modules
