"""Options that several commands have, and which option changes a setting."""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import click

from strom.model.errors import UserError
from strom.supervision.lifeline import LIFELINE

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
EXISTING_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_HINTS_VARIABLE = "STROM_SETTING_HINTS"
_FREE_PORT = "Use --port N, or --port 0 for a free one."
_OPTIONS = {
    "advertised.host": "Use --advertised HOST:PORT.",
    "amqp.management.port": "Use --set amqp.management.port=N, or 0 to disable it.",
    "amqp.port": "Use --amqp-port N, or --amqp-port 0 to disable AMQP.",
    "host": "Use --host ADDRESS.",
    "log.dirs": "Use --data DIR.",
    "metrics.port": "Use --metrics-port N, or --metrics-port 0 to disable it.",
    "node.id": "Use --set node.id=N, or --data DIR.",
    "port": _FREE_PORT,
    "rest.port": _FREE_PORT,
}
"""Errors name settings: only `cli` knows its options."""

names_argument = click.argument("names", nargs=-1, required=True, metavar="NAME...")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
ready_json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one line of JSON when it is ready."
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
lifeline_option = click.option(LIFELINE, "lifeline", is_flag=True, hidden=True)
codec_option = click.option(
    "-z",
    "--compression",
    type=click.Choice(CODECS),
    default="none",
    show_default=True,
    help="Codec.",
)
acks_option = click.option(
    "--acks",
    type=click.Choice(["all", "1", "0"]),
    default="all",
    show_default=True,
    help="The acknowledgements to wait for.",
)


def assignments_option(*flags: str, doc: str) -> Decorator:
    """An option of the form NAME=VALUE, any number of times."""
    return click.option(*flags, multiple=True, metavar="NAME=VALUE", help=doc)


def count_option(*flags: str, default: int, doc: str) -> Decorator:
    """An option for a number of at least one."""
    return click.option(
        *flags, type=click.IntRange(min=1), default=default, show_default=True, help=doc
    )


def port_option(flag: str, default: int, doc: str, *, show_default: bool = True) -> Decorator:
    """An option for a port to listen on."""
    return click.option(
        flag,
        type=click.IntRange(0, 65535),
        default=default,
        show_default=show_default,
        metavar="N",
        help=doc,
    )


host_option = click.option(
    "--host", default="127.0.0.1", show_default=True, help="The address to listen on."
)


def confirm(question: str, yes: bool, *, action: str = "Deletion", verb: str = "delete") -> None:
    """Ask before what cannot be undone, unless `yes`; UserError if there is no terminal to ask at."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UserError(f"{action} cannot be undone. To {verb} without confirmation, add --yes.")
    click.confirm(question, abort=True, err=True)


def require_packages(who_needs: str, modules: Sequence[str], *, extra: str) -> None:
    """Raise UserError if a module of an extra is not installed."""
    missing = [name for name in modules if not _is_installed(name)]
    if missing:
        raise UserError(
            f"{who_needs} {', '.join(missing)}. Install with: pip install 'strom[{extra}]'"
        )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its parent is not installed either
        return False


def environment_of_child(options: Mapping[str, str]) -> dict[str, str]:
    """The environment of a strom command that another one starts.

    Its errors give these hints on settings, instead of options that the user did not type.
    """
    return {**os.environ, _HINTS_VARIABLE: json.dumps(dict(options))}


def with_option(message: str, setting: str | None) -> str:
    """A message about a setting, followed by the option to use if there is one."""
    hints = os.environ.get(_HINTS_VARIABLE)
    options = _OPTIONS if hints is None else json.loads(hints)
    option = options.get(setting or "")
    return f"{message} {option}" if option else message
