"""The program itself: its help, its errors, its endings."""

import signal
import subprocess
import sys

import click
import pytest

from strom.cli.program import COMMANDS, INTERRUPTED, PIPE_CLOSED, program


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_lists_each_command_as_the_command_describes_itself(name):
    command = program.get_command(click.Context(program), name)
    assert command is not None
    assert command.help is not None
    assert command.help.partition("\n")[0] == COMMANDS[name][1]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(strom, name):
    result = strom(name, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: strom {name} ")


def test_the_help_loads_neither_the_kafka_client_nor_the_terminal_library():
    code = (
        "import sys; from strom.cli.program import program\n"
        "try: program.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'confluent_kafka', 'rich', 'asyncio'} & sys.modules.keys()))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert output.splitlines()[-1] == b"[]"


def test_without_arguments_the_help_is_shown(strom):
    result = strom()
    assert result.exit_code == 2
    assert "kafka-topics" in result.stderr


def test_a_wrong_command_is_answered_with_the_nearest_right_one(strom):
    result = strom("topcs")
    assert result.exit_code == 2
    assert result.stderr == (
        "Error: Unknown command 'topcs'. Did you mean topics? See: strom --help\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [["--nonsense"], ["topics", "create"], ["topics", "list", "--nonsense"], ["consume"]],
)
def test_a_wrong_call_is_one_line_with_exit_code_2(strom, arguments):
    result = strom(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.endswith("--help\n")


def test_no_broker_is_reported_with_what_to_type(strom):
    result = strom("topics", "list", "-b", "127.0.0.1:9")
    assert result.exit_code == 1
    assert result.stderr == (
        "Error: No Kafka broker listens at 127.0.0.1:9. Start one with: strom start --port 9\n"
    )


def test_no_error_asks_to_start_a_broker_on_another_machine(strom):
    result = strom("topics", "list", "-b", "kafka.invalid:9092")
    assert result.exit_code == 1
    assert "strom start" not in result.stderr
    assert "Check the address" in result.stderr


def test_an_unreadable_address_is_a_mistake_of_the_user(strom):
    result = strom("topics", "list", "-b", "localhost:kafka")
    assert result.exit_code == 1
    assert "HOST:PORT" in result.stderr


def test_an_unknown_client_property_is_reported_in_one_line(strom_at_broker):
    result = strom_at_broker("topics", "list", "-X", "no.such.thing=1")
    assert result.exit_code == 1
    assert result.stderr == 'Error: No such configuration property: "no.such.thing".\n'


def test_ctrl_c_ends_quietly(start_strom, filled_topic):
    process = start_strom("consume", filled_topic, "--from-beginning")
    assert process.stdout.readline() == b"0\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == INTERRUPTED
    assert errors.strip() == b""


def test_a_closed_pipe_ends_quietly(start_strom, filled_topic):
    process = start_strom("consume", filled_topic, "-o", "start")
    assert process.stdout.readline() == b"0\n"
    process.stdout.close()
    more = start_strom("produce", filled_topic, "--quiet", stdin=subprocess.PIPE)
    more.communicate(b"one more\n", timeout=20)
    assert process.wait(timeout=20) == PIPE_CLOSED
    assert process.stderr.read() == b""
    process.stderr.close()
