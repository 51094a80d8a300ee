"""The forms of settings: what they fill in."""

from strom.connect.api.settings import SettingDefinition
from strom.connect.connectors.databases.source_settings import JdbcSourceSettings
from strom.connect.runtime.validation import described


def test_a_required_choice_has_no_default() -> None:
    mode = JdbcSourceSettings.definitions()["mode"]
    assert isinstance(mode, SettingDefinition)
    shown = described(mode, order=1)
    assert shown["required"]
    assert not shown["default_value"]
