"""Writes Parquet files with Spark, and verifies that the driver sees every row.

A task on a machine without the project's data folder writes to its local disk, and Spark reports success.
So each task compares the folder's token before it writes, and afterwards the number of rows that
tasks have written is compared with the footers of the files.
"""

import re
import shutil
from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf

from strom.pipelines.data_folder import TOKEN_FILE, read_or_create_token
from strom.pipelines.failures import TransientError
from strom.pipelines.spark.reading import literal_path

_TOKEN = "_folder_token"  # noqa: S105 - a column's name
_REFUSED = "strom: other data folder at "
"""The prefix of a task's error, to find it in Spark's."""
_LOCAL_MASTER = re.compile(r"local(\[.*\])?")
_REMEDY = (
    "Mount one folder at the same path on the driver and on all workers, and set `data` in strom.toml "
    "to it. Nothing was published."
)


class FolderNotShared(TransientError):
    """Executors do not see the driver's data folder. Transient: it may be mounted, or they may leave."""


def write_rows(rows: DataFrame, folder: Path, data: Path) -> dict[Path, int]:
    """Write rows to a new folder within `data`; returns the number of rows of each file.

    Raises FolderNotShared, and removes the folder, if the driver does not see all rows.
    """
    observation = Observation()
    # Observe last, in the final stage: there, Spark counts every task once, even if it was retried.
    # Further down, the optimizer removes it if it infers no rows, and `get` never returns.
    checked = _where_shared(rows, data).observe(observation, sf.count(sf.lit(1)).alias("rows"))
    try:
        checked.write.parquet(str(folder))
    except Exception as error:
        shutil.rmtree(folder, ignore_errors=True)
        if reason := to_folder_error(error, data):
            raise reason from None
        raise
    files = files_in(folder)
    written, seen = int(observation.get["rows"]), sum(files.values())
    if written != seen or not files:  # Spark writes a file even for no rows
        shutil.rmtree(folder, ignore_errors=True)
        raise FolderNotShared(
            f"Spark's tasks wrote {written} rows to {folder}, but this process sees {seen} rows in "
            f"{len(files)} files there: the workers do not share the data folder {data}. {_REMEDY}"
        )
    return files


def files_in(folder: Path) -> dict[Path, int]:
    """The Parquet files of a folder with their number of rows, as this process sees them."""
    import pyarrow.parquet as pq

    return {path: pq.read_metadata(path).num_rows for path in sorted(folder.glob("*.parquet"))}


def is_local(spark: SparkSession) -> bool:
    """Whether driver and tasks run in one process, and so see the same files."""
    return _LOCAL_MASTER.fullmatch(spark.conf.get("spark.master") or "") is not None


def to_folder_error(error: Exception, data: Path) -> FolderNotShared | None:
    """Convert an error of Spark that is caused by the data folder; None for any other."""
    text = str(error)
    if _REFUSED in text:
        executor = text.partition(_REFUSED)[2].partition(" SQLSTATE")[0].splitlines()[0]
        return FolderNotShared(
            f"The executor on {executor.strip()} does not see the data folder {data} of this project: "
            f"{TOKEN_FILE} is missing there, or belongs to another project. {_REMEDY}"
        )
    missing = re.search(r"file:/*(/.*?)\.? (?:File )?does not exist", text)
    path = Path(unquote(missing[1])) if missing else None
    if path and path.is_relative_to(data) and path.exists():
        return FolderNotShared(
            f"An executor does not see the file {path}, which this process sees: the workers do not "
            f"share the data folder {data}. {_REMEDY}"
        )
    return None


def _where_shared(rows: DataFrame, data: Path) -> DataFrame:
    """The same rows; a task fails if it does not see this project's token.

    The cross join with the token's one row runs within the writing tasks: each reads the file itself,
    also on executors that joined later, and no row passes through Python.
    """
    spark = rows.sparkSession
    if is_local(spark):
        return rows
    token = read_or_create_token(data)
    # An aggregate returns one row even if the file is missing.
    seen = (
        spark.read.schema(f"{_TOKEN} STRING")
        .option("ignoreMissingFiles", "true")
        .text(literal_path(data / TOKEN_FILE))
        .coalesce(1)
        .agg(sf.max(_TOKEN).alias(_TOKEN))
    )
    host = sf.try_reflect(sf.lit("java.net.InetAddress"), sf.lit("getLocalHost"))
    failure = sf.raise_error(sf.concat(sf.lit(_REFUSED), sf.coalesce(host, sf.lit("a worker"))))
    is_same = sf.when(sf.col(_TOKEN) == token, sf.lit(True)).otherwise(failure.cast("boolean"))
    product = rows.crossJoin(seen.where(is_same).hint("shuffle_replicate_nl"))
    return product.drop(_TOKEN)
