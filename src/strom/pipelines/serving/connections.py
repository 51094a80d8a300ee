"""DuckDB connections that know the sketch functions."""

from typing import TYPE_CHECKING

from strom.pipelines.serving import sketch_functions

if TYPE_CHECKING:
    import duckdb


def connect(*, memory: str = "512MB", threads: int = 2) -> "duckdb.DuckDBPyConnection":
    """A connection in memory, with times in UTC."""
    import duckdb

    connection = duckdb.connect(config={"memory_limit": memory, "threads": threads})
    connection.execute(
        "SET TimeZone='UTC'; SET enable_progress_bar=false; SET preserve_insertion_order=false"
    )
    sketch_functions.register(connection)
    return connection


def parquet_source(files: list[str]) -> str:
    """Files as a relation; columns are matched by their names."""
    listed = ", ".join(map(quoted_text, files))
    return f"read_parquet([{listed}], union_by_name = true)"


def quoted_text(value: object) -> str:
    """A text, such as a path, as SQL writes it."""
    return "'" + str(value).replace("'", "''") + "'"
