"""The rows that a view's measures see, made of a stream's rows step by step."""

from pathlib import Path
from typing import TYPE_CHECKING

from strom.pipelines.definitions.place import DefinitionError
from strom.pipelines.definitions.stream import RECORD_COLUMNS, Table
from strom.pipelines.definitions.view import View
from strom.pipelines.fold import RECORD, window_start

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def prepared(view: View, rows: "DataFrame", folder: Path) -> "DataFrame":
    """The rows that a view's measures see; tables are looked for beside the project."""
    for step in view.steps:
        if step.rolls_up is not None:
            rows = _groups(step.rolls_up, rows)
        rows = _own_step(step, rows, folder)
    return rows


def windowed(view: View, rows: "DataFrame") -> "DataFrame":
    """The rows with the columns of the view's windows, in a sliding one several times."""
    from pyspark.sql import functions as sf

    for window in view.windows:
        start = sf.expr(window_start(window, view.time or "").spark)
        rows = rows.withColumn(window.name, sf.explode(start) if window.overlaps > 1 else start)
    return rows


def _groups(view: View, rows: "DataFrame") -> "DataFrame":
    """What a rollup sees of each record: the keys of its group, and the record to be measured, sealed."""
    from pyspark.sql import functions as sf

    if RECORD not in rows.columns:
        rows = rows.withColumn(RECORD, sf.struct(*rows.columns))
    rows = windowed(view, rows)
    keys = [sf.col(name) for name in view.key_names]
    for window in view.windows:
        microseconds = sf.unix_micros(window.name) + sf.lit(window.length_us)
        keys.append(sf.timestamp_micros(microseconds).alias(window.end_name))
    return rows.select(*keys, RECORD)


def _own_step(step: View, rows: "DataFrame", folder: Path) -> "DataFrame":
    from pyspark.sql import functions as sf

    for name, text in step.columns.items():
        rows = rows.withColumn(name, sf.expr(text))
    if step.where:
        rows = rows.where(step.where)
    if step.prepare:
        tables = {
            name: _table(rows.sparkSession, table, folder) for name, table in step.tables.items()
        }
        rows = step.prepare(rows, **tables)
    if step.select:
        own = [name for name in (*RECORD_COLUMNS, RECORD) if name in rows.columns]
        rows = rows.select(*step.select, *(name for name in own if name not in step.select))
    if step.rolls_up is not None and RECORD not in rows.columns:
        raise DefinitionError(
            step.place,
            f"`prepare` must keep all columns of {step.rolls_up.name or 'what it reads'}.",
        )
    return rows


def _table(spark: "SparkSession", table: Table, folder: Path) -> "DataFrame":
    reader = spark.read.format(table.format)
    if table.schema:
        reader = reader.schema(table.schema)
    if table.format == "csv":
        reader = reader.option("header", "true")
    return reader.load(str(folder / table.path))
