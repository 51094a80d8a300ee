"""The files of a new project."""

import tomllib

import pytest

from strom.cli.project_files import settings_text


@pytest.mark.parametrize("name", ["shop", 'a"b', "back\\slash", "Läden für alle's"])
def test_the_settings_of_a_new_project_can_be_read_with_any_name_of_its_folder(name):
    assert tomllib.loads(settings_text(name))["name"] == name
