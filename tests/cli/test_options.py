"""Errors name settings; the program adds the option to use."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import strom
from strom.cli.options import _OPTIONS, environment_of_child, with_option
from strom.cli.program import program
from strom.connect.runtime.settings import WorkerSettings
from strom.model.broker_settings import BrokerSettings
from strom.model.errors import UserError

SOURCE = Path(strom.__file__).parent
SETTING = re.compile(r"setting=\"([a-z.]+)\"")


def test_an_option_follows_the_message():
    assert with_option("Port 1 is in use.", "amqp.port") == (
        "Port 1 is in use. Use --amqp-port N, or --amqp-port 0 to disable AMQP."
    )


@pytest.mark.parametrize("setting", [None, "serving.port"])
def test_a_message_without_an_option_stays_as_it_is(setting):
    assert with_option("It failed.", setting) == "It failed."


def test_a_child_gives_the_hints_of_the_command_that_started_it(monkeypatch):
    hints = environment_of_child({"port": "Use --registry-port N."})
    monkeypatch.setattr("os.environ", hints)
    assert with_option("It is in use.", "port") == "It is in use. Use --registry-port N."
    assert with_option("It is in use.", "log.dirs") == "It is in use."


def test_the_program_adds_the_option(monkeypatch):
    def fail(*_args, **_options):
        raise UserError("The folder is in use.", setting="log.dirs")

    monkeypatch.setattr("strom.app.serve", fail)
    result = CliRunner().invoke(program, ["start", "--port", "0"])
    assert result.stderr == "Error: The folder is in use. Use --data DIR.\n"


def test_options_are_of_settings_that_exist():
    known = {*BrokerSettings.definitions(), *WorkerSettings.definitions()}
    assert _OPTIONS.keys() <= known


def test_every_setting_in_an_error_has_an_option_or_is_in_the_project_file():
    used = {
        name for path in SOURCE.rglob("*.py") for name in SETTING.findall(path.read_text("utf-8"))
    }
    assert used - {"serving.port"} == _OPTIONS.keys()
