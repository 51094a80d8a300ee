"""The page of docs/reference/ on the command line, from the commands themselves."""

import inspect
from collections.abc import Iterator

import click

from strom.cli.connection import connection_options
from strom.cli.program import SECTIONS, program

CONNECTED = click.command()(connection_options(lambda connection: None))
"""A command with the options that all have that talk to a broker; they are described once."""
BROKER = "[how to reach a broker](#how-to-reach-a-broker)"


def commands() -> str:
    """Every command with its arguments and options, in the order of the help."""
    parts = [
        "# Commands\n\n`strom COMMAND --help` prints the same. A user's mistake ends with exit "
        "code 1, a wrong call with 2, Ctrl-C with 130.\n",
        "\n## How to reach a broker\n\nEvery command that talks to one has these:\n\n",
        *_options(_records(CONNECTED, click.Context(CONNECTED))),
    ]
    root = click.Context(program, info_name="strom")
    for title, names in SECTIONS.items():
        parts.append(f"\n## {title}\n")
        for name in names:
            command = program.get_command(root, name)
            assert command is not None  # a test asks each for its help
            parts += _described(command, click.Context(command, info_name=name, parent=root))
    return "".join(parts)


def _described(command: click.Command, context: click.Context) -> Iterator[str]:
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                yield from _described(child, click.Context(child, info_name=name, parent=context))
        return
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"\n### {context.command_path}\n\n```\n{usage}\n```\n\n{_text(command)}\n"
    records = _records(command, context)
    shared = _records(CONNECTED, click.Context(CONNECTED))
    own = [one for one in records if one not in shared]
    if records:
        yield "\n"
    yield from _options(own)
    if len(own) < len(records):
        yield f"- {BROKER}\n"


def _records(command: click.Command, context: click.Context) -> list[tuple[str, str]]:
    return [
        record
        for parameter in command.get_params(context)
        if isinstance(parameter, click.Option)
        and "--help" not in parameter.opts
        and (record := parameter.get_help_record(context)) is not None
    ]


def _options(records: list[tuple[str, str]]) -> Iterator[str]:
    return (f"- `{option}`: {' '.join(text.split())}\n" for option, text in records)


def _text(command: click.Command) -> str:
    """The help as paragraphs; what is laid out by hand stays so."""
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    return "\n\n".join(
        f"```\n{one.removeprefix(chr(8)).strip(chr(10))}\n```"
        if one.startswith("\b")
        else " ".join(one.split())
        for one in paragraphs
    )
