"""Output: notices to stderr; data to stdout as JSON or a table, colored only on a terminal."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import click

Cell: TypeAlias = str | int | None
"""None for what is unknown or does not exist: a dash in a table."""


def notice(text: str) -> None:
    """Print a message to stderr, apart from the data on stdout."""
    click.echo(text, err=True)


def write_bytes(data: bytes) -> None:
    """Write and flush bytes to stdout. Unbuffered (python -u), it may accept only a part at a time."""
    left = memoryview(data)
    while left:
        left = left[sys.stdout.buffer.write(left) :]
    sys.stdout.buffer.flush()


def print_json(value: Any) -> None:
    """Print a JSON value on one line."""
    click.echo(json.dumps(value, ensure_ascii=False))


def print_rows(
    columns: Mapping[str, str], rows: Sequence[Sequence[Cell]], *, as_json: bool, if_none: str = ""
) -> None:
    """Print rows as JSON objects or as a table, whose titles `columns` has by the names in JSON."""
    objects = [dict(zip(columns, row, strict=True)) for row in rows] if as_json else []
    print_found(objects, tuple(columns.values()), rows, as_json=as_json, if_none=if_none)


def print_found(
    found: object,
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    as_json: bool,
    if_none: str = "",
) -> None:
    """Print what was found as JSON or as a table; without any rows, the notice `if_none`."""
    if as_json:
        print_json(found)
    elif (table := list(rows)) or not if_none:
        print_table(columns, table)
    else:
        notice(if_none)


def print_facts(facts: Mapping[str, object], width: int = 13) -> None:
    """Print one line for each title and its value."""
    for title, value in facts.items():
        click.echo(f"{title:<{width}}{value}")


def print_ready(title: str, facts: Mapping[str, str], commands: Sequence[str]) -> None:
    """Announce a running server: its addresses, and what to type next."""
    width = max(13, *map(len, facts)) + 3
    lines = [title, *(f"  {name:<{width}}{value}" for name, value in facts.items())]
    lines += ["", "Next, in another terminal:", *(f"  {one}" for one in commands)]
    click.echo("\n".join([*lines, "", "Ctrl-C stops it."]))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print rows below their column titles; numbers are right-aligned."""
    if sys.stdout.isatty():
        _print_rich_table(columns, rows)
    else:
        _print_plain_table(columns, rows)


def human_count(number: float) -> str:
    """A rounded number with thousands separators, as in 1,000,000."""
    return f"{number:,.0f}"


def human_bytes(number: float) -> str:
    """A size with a fitting unit, as in 61.4 MB."""
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:,.0f} {unit}" if unit == "B" else f"{number:,.1f} {unit}"
        number /= 1000
    return f"{number:,.1f} GB"


def _print_rich_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for column, right in zip(columns, _numeric_columns(columns, rows), strict=True):
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_text(cell)) for cell in row))
    Console().print(table)


def _print_plain_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    lines = [list(columns), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    right = _numeric_columns(columns, rows)
    for line in lines:
        cells = (
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, right, strict=True)
        )
        click.echo("  ".join(cells).rstrip())


def _text(cell: Cell) -> str:
    return "-" if cell is None else str(cell)


def _numeric_columns(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[bool]:
    return [
        bool(rows) and all(isinstance(row[index], int) for row in rows)
        for index in range(len(columns))
    ]
