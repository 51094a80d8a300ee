"""The rows that a view's measures see, made of a stream's rows step by step."""

from pathlib import Path
from typing import TYPE_CHECKING

from strom.model.errors import UserError
from strom.pipelines.definitions.place import DefinitionError, raised_at
from strom.pipelines.definitions.stream import RECORD_COLUMNS, Table
from strom.pipelines.definitions.view import View
from strom.pipelines.spark.reading import literal_path
from strom.pipelines.spark.row_level import TABLE_MARK
from strom.pipelines.views.fold import RECORD, window_start
from strom.pipelines.views.static_tables import table_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOT_AS_EXPECTED = "not as expected: "
"""How the message of a failed expectation begins, so that it can be found in Spark's error."""


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
            name: _table(rows.sparkSession, table, folder).alias(f"{TABLE_MARK}{name}")
            for name, table in step.tables.items()
        }
        rows = _prepared_by_user(step, rows, tables)
    rows = _as_expected(step, rows)
    if step.select:
        own = [name for name in (*RECORD_COLUMNS, RECORD) if name in rows.columns]
        rows = rows.select(*step.select, *(name for name in own if name not in step.select))
    if step.rolls_up is not None and RECORD not in rows.columns:
        raise DefinitionError(
            step.place,
            f"`prepare` must keep all columns of {step.rolls_up.name or 'what it reads'}.",
        )
    return rows


def _prepared_by_user(step: View, rows: "DataFrame", tables: dict[str, "DataFrame"]) -> "DataFrame":
    """What the user's function makes of the rows; its mistakes are told with their line."""
    from pyspark.errors import PySparkException

    assert step.prepare is not None  # noqa: S101 - asked before
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
        text = f"`prepare` of {name} must return rows, and returned {type(made).__name__}."
        raise DefinitionError(step.place, text)
    return made


def _as_expected(step: View, rows: "DataFrame") -> "DataFrame":
    """The rows without those that expectations drop; one that must hold, and does not, is an error."""
    from pyspark.sql import functions as sf

    position = [name for name in ("_partition", "_offset") if name in rows.columns]
    for name, condition in step.expect_or_fail.items():
        told = (
            f"{NOT_AS_EXPECTED}Expectation {name} of view {step.name} does not hold: {condition}."
        )
        where = [sf.concat_ws(" ", sf.lit(f" {one[1:]}"), one) for one in position]
        failure = sf.raise_error(sf.concat(sf.lit(told), *where)).cast("boolean")
        rows = rows.where(sf.when(sf.expr(condition), sf.lit(True)).otherwise(failure))
    for condition in step.expect_or_drop.values():
        rows = rows.where(condition)
    return rows


def _table(spark: "SparkSession", table: Table, folder: Path) -> "DataFrame":
    reader = spark.read.format(table.format)
    if table.schema:
        reader = reader.schema(table.schema)
    if table.format == "csv":
        reader = reader.option("header", "true")
    return reader.load(literal_path(table_path(table, folder)))
