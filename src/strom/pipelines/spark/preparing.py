"""Transforms the rows of a stream to those that a view measures, step by step."""

from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from strom.model.errors import UserError
from strom.pipelines.definitions.place import DefinitionError, raised_at
from strom.pipelines.definitions.stream import RECORD_COLUMNS, Table
from strom.pipelines.definitions.view import View
from strom.pipelines.failures import EXPECTATION_FAILED
from strom.pipelines.spark.reading import literal_path
from strom.pipelines.spark.row_level import TABLE_MARK
from strom.pipelines.views.fold import RECORD, window_start
from strom.pipelines.views.static_tables import table_path


def prepared(view: View, rows: DataFrame, folder: Path) -> DataFrame:
    """The rows that a view measures; paths of tables are relative to the project's folder."""
    for step in view.steps:
        if step.rolls_up is not None:
            rows = _groups(step.rolls_up, rows)
        rows = _apply_step(step, rows, folder)
    return rows


def windowed(view: View, rows: DataFrame) -> DataFrame:
    """The rows with the columns of the view's windows; a sliding window duplicates rows."""
    for window in view.windows:
        start = sf.expr(window_start(window, view.time or "").spark)
        rows = rows.withColumn(window.name, sf.explode(start) if window.overlaps > 1 else start)
    return rows


def _groups(view: View, rows: DataFrame) -> DataFrame:
    """The rows of a rollup: the keys of each record's group, and the record itself in column RECORD."""
    if RECORD not in rows.columns:
        rows = rows.withColumn(RECORD, sf.struct(*rows.columns))
    rows = windowed(view, rows)
    keys = [sf.col(name) for name in view.key_names]
    for window in view.windows:
        microseconds = sf.unix_micros(window.name) + sf.lit(window.length_us)
        keys.append(sf.timestamp_micros(microseconds).alias(window.end_name))
    return rows.select(*keys, RECORD)


def _apply_step(step: View, rows: DataFrame, folder: Path) -> DataFrame:
    for name, text in step.columns.items():
        rows = rows.withColumn(name, sf.expr(text))
    if step.where:
        rows = rows.where(step.where)
    if step.prepare:
        tables = {
            name: _table(rows.sparkSession, table, folder).alias(f"{TABLE_MARK}{name}")
            for name, table in step.tables.items()
        }
        rows = _call_prepare(step, rows, tables)
    rows = _check_expectations(step, rows)
    if step.select:
        own = [name for name in (*RECORD_COLUMNS, RECORD) if name in rows.columns]
        rows = rows.select(*step.select, *(name for name in own if name not in step.select))
    if step.rolls_up is not None and RECORD not in rows.columns:
        raise DefinitionError(
            step.place,
            f"`prepare` must keep all columns of {step.rolls_up.name or 'what it reads'}.",
        )
    return rows


def _call_prepare(step: View, rows: DataFrame, tables: dict[str, DataFrame]) -> DataFrame:
    """Call the user's function; DefinitionError has the line at which it fails."""
    assert step.prepare is not None  # noqa: S101 - checked by the caller
    name = step.name or "a view"
    try:
        made = step.prepare(rows, **tables)
    except (PySparkException, UserError):
        raise
    except Exception as error:  # noqa: BLE001 - the user's function may raise anything
        place = raised_at(error, step.place)
        text = f"`prepare` of {name} failed: {type(error).__name__}: {error}"
        raise DefinitionError(place, text) from None
    if not hasattr(made, "columns"):
        text = f"`prepare` of {name} must return a DataFrame, not {type(made).__name__}."
        raise DefinitionError(step.place, text)
    return made


def _check_expectations(step: View, rows: DataFrame) -> DataFrame:
    """Drop rows by `expect_or_drop`; a row that violates `expect_or_fail` fails the job."""
    position = [name for name in ("_partition", "_offset") if name in rows.columns]
    for name, condition in step.expect_or_fail.items():
        message = f"Expectation {name} of view {step.name} does not hold: {condition}."
        where = [sf.concat_ws(" ", sf.lit(f" {one[1:]}"), one) for one in position]
        failure = sf.raise_error(sf.concat(sf.lit(EXPECTATION_FAILED + message), *where)).cast(
            "boolean"
        )
        rows = rows.where(sf.when(sf.expr(condition), sf.lit(True)).otherwise(failure))
    for condition in step.expect_or_drop.values():
        rows = rows.where(condition)
    return rows


def _table(spark: SparkSession, table: Table, folder: Path) -> DataFrame:
    reader = spark.read.format(table.format)
    if table.schema:
        reader = reader.schema(table.schema)
    if table.format == "csv":
        reader = reader.option("header", "true")
    return reader.load(literal_path(table_path(table, folder)))
