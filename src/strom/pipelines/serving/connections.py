"""DuckDB connections with the sketch functions, and literals for their SQL."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from strom.pipelines.serving import sketch_functions

if TYPE_CHECKING:
    import duckdb


def connect(
    *,
    memory: str = "512MB",
    threads: int = 2,
    spill: Path | None = None,
    spill_bytes: int = 0,
) -> "duckdb.DuckDBPyConnection":
    """An in-memory database whose session time zone is UTC.

    What exceeds its memory goes to the folder `spill`, of this database alone: DuckDB empties it.
    """
    import duckdb

    config: dict[str, Any] = {"memory_limit": memory, "threads": threads}
    if spill is not None:
        config |= {"temp_directory": str(spill), "max_temp_directory_size": f"{spill_bytes}B"}
    connection = duckdb.connect(config=config)
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
