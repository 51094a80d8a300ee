"""`strom query`: run SQL over views."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from strom.cli.printing import print_table, write_bytes
from strom.cli.project import project_option, require_pipelines


@click.command()
@click.argument("sql")
@project_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "csv", "arrow"]),
    default="table",
    show_default=True,
)
def query(sql: str, folder: Path, form: str) -> None:
    """Run a SELECT over views.

    The result merges batch and speed layer, up to the latest record.
    """
    require_pipelines()
    from strom.pipelines.serving.formats import encode_table, to_text
    from strom.pipelines.serving.queries import QueryEngine
    from strom.pipelines.settings import FILE, read_settings
    from strom.pipelines.views.manifests import Manifests

    settings = read_settings(folder / FILE)
    server = QueryEngine(Manifests((folder / settings.data / "views").resolve()))
    try:
        table = server.query(sql)
    finally:
        server.close()
    if form != "table":
        write_bytes(encode_table(table, form))
        if form == "json":
            sys.stdout.write("\n")
        return
    rows = [
        tuple(value if isinstance(value, int) else _shown(value, to_text) for value in row.values())
        for row in table.to_pylist()
    ]
    print_table(table.column_names, rows)


def _shown(value: object, to_text: Callable[[Any], Any]) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value if isinstance(value, str | list | dict) else to_text(value))
