"""Connectors by their names: strom's own, and those of installed packages."""

import logging

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
