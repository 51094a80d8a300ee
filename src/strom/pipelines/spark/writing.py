"""Parquet files that Spark's tasks write, accepted only if the driver sees every row in them.

A task on a machine without the project's data folder writes to its own disk, and Spark reports success.
So each task compares the folder's token before it writes, and afterwards the rows that the tasks have
written are compared with the footers of the files that are there.
"""

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from strom.pipelines.failures import Transient
from strom.pipelines.folder_token import FILE, token_of
from strom.pipelines.spark.reading import literal_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TOKEN = "_folder_token"  # noqa: S105 - a column's name
_REFUSED = "strom: other data folder at "
"""How the error of a task begins, so that it can be found in Spark's."""
_IN_ONE_PROCESS = re.compile(r"local(\[.*\])?")
_WAY_OUT = (
    "Mount one folder, at the same path, on the driver and on all workers, and name it as `data` in "
    "strom.toml. Nothing was published."
)


class FolderNotShared(Transient):
    """Executors do not see the data folder that the driver sees, until it is mounted or they leave."""


def write_rows(rows: "DataFrame", folder: Path, data: Path) -> dict[Path, int]:
    """Write rows into a new folder within `data`; returns its files, each with its number of rows.

    FolderNotShared if the driver does not see all rows. The folder is removed then.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as sf

    observation = Observation()
    # Last, so in the last stage: there, Spark counts every task once, however often it was retried.
    # Further down, an optimizer that knows of no rows would remove it, and `get` would never return.
    checked = _where_shared(rows, data).observe(observation, sf.count(sf.lit(1)).alias("rows"))
    try:
        checked.write.parquet(str(folder))
    except Exception as error:
        shutil.rmtree(folder, ignore_errors=True)
        if reason := not_shared(error, data):
            raise reason from None
        raise
    files = files_in(folder)
    written, seen = int(observation.get["rows"]), sum(files.values())
    if written != seen or not files:  # Spark writes a file for no rows too
        shutil.rmtree(folder, ignore_errors=True)
        raise FolderNotShared(
            f"Spark's tasks wrote {written} rows to {folder}, but this process sees {seen} rows in "
            f"{len(files)} files there: the workers do not share the data folder {data}. {_WAY_OUT}"
        )
    return files


def files_in(folder: Path) -> dict[Path, int]:
    """The Parquet files that this process sees in a folder, each with its number of rows."""
    import pyarrow.parquet as pq

    return {path: pq.read_metadata(path).num_rows for path in sorted(folder.glob("*.parquet"))}


def runs_in_one_process(spark: "SparkSession") -> bool:
    """Whether driver and tasks are one process, and so see the same files."""
    return _IN_ONE_PROCESS.fullmatch(spark.conf.get("spark.master") or "") is not None


def not_shared(error: Exception, data: Path) -> FolderNotShared | None:
    """What an error of Spark says of the data folder; None if it says nothing."""
    text = str(error)
    if _REFUSED in text:
        executor = text.partition(_REFUSED)[2].partition(" SQLSTATE")[0].splitlines()[0]
        return FolderNotShared(
            f"The executor on {executor.strip()} does not see the data folder {data} of this project: "
            f"{FILE} is missing there, or is another project's. {_WAY_OUT}"
        )
    missing = re.search(r"file:/*(/.*?)\.? (?:File )?does not exist", text)
    path = Path(unquote(missing[1])) if missing else None
    if path and path.is_relative_to(data) and path.exists():
        return FolderNotShared(
            f"An executor does not see the file {path}, which this process sees: the workers do not "
            f"share the data folder {data}. {_WAY_OUT}"
        )
    return None


def _where_shared(rows: "DataFrame", data: Path) -> "DataFrame":
    """The same rows; a task fails if it does not see this project's token.

    The product with the token's one row is made within the writing tasks: each reads the file itself,
    executors that joined later too, and no row passes through Python.
    """
    from pyspark.sql import functions as sf

    spark = rows.sparkSession
    if runs_in_one_process(spark):
        return rows
    token = token_of(data)
    # An aggregate has one row even if the file is missing.
    seen = (
        spark.read.schema(f"{_TOKEN} STRING")
        .option("ignoreMissingFiles", "true")
        .text(literal_path(data / FILE))
        .coalesce(1)
        .agg(sf.max(_TOKEN).alias(_TOKEN))
    )
    host = sf.try_reflect(sf.lit("java.net.InetAddress"), sf.lit("getLocalHost"))
    failure = sf.raise_error(sf.concat(sf.lit(_REFUSED), sf.coalesce(host, sf.lit("a worker"))))
    is_same = sf.when(sf.col(_TOKEN) == token, sf.lit(True)).otherwise(failure.cast("boolean"))
    product = rows.crossJoin(seen.where(is_same).hint("shuffle_replicate_nl"))
    return product.drop(_TOKEN)
