"""`strom query`: run SQL over views."""

import contextlib
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
    import pyarrow as pa

    from strom.pipelines.serving.formats import encode_batches, to_text
    from strom.pipelines.serving.limits import QueryLimits
    from strom.pipelines.serving.queries import QueryEngine
    from strom.pipelines.settings import FILE, read_settings
    from strom.pipelines.views.manifests import Manifests

    settings = read_settings(folder / FILE)
    manifests = Manifests((folder / settings.data / "views").resolve())
    with contextlib.closing(QueryEngine(manifests, limits=QueryLimits.of(settings))) as server:
        if form != "table":
            result = server.query_within_limits(
                sql,
                lambda schema, batches: server.results.write(encode_batches(schema, batches, form)),
            )
            with contextlib.closing(result):
                for piece in result.pieces():
                    write_bytes(piece)
            if form == "json":
                sys.stdout.write("\n")
            return
        table = server.query_within_limits(
            sql, lambda schema, batches: pa.Table.from_batches(list(batches), schema)
        )
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
