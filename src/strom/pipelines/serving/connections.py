"""DuckDB connections with the sketch functions, and literals for their SQL."""

from typing import TYPE_CHECKING

from strom.pipelines.serving import sketch_functions

if TYPE_CHECKING:
    import duckdb


def connect(*, memory: str = "512MB", threads: int = 2) -> "duckdb.DuckDBPyConnection":
    """An in-memory database whose session time zone is UTC."""
    import duckdb

    connection = duckdb.connect(config={"memory_limit": memory, "threads": threads})
    connection.execute(
        "SET TimeZone='UTC'; SET enable_progress_bar=false; SET preserve_insertion_order=false"
    )
    sketch_functions.register(connection)
    return connection


def parquet_source(files: list[str]) -> str:
    """Parquet files as a relation; columns are matched by name."""
    listed = ", ".join(map(quoted_text, files))
    return f"read_parquet([{listed}], union_by_name = true)"


def quoted_text(value: object) -> str:
    """A string literal in SQL, such as a path."""
    return "'" + str(value).replace("'", "''") + "'"
