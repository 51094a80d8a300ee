"""Computes the partial states of a view's measures with Spark."""

import logging
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from strom.pipelines.definitions.place import DefinitionError, raised_at
from strom.pipelines.definitions.view import View
from strom.pipelines.spark.preparing import prepared, windowed
from strom.pipelines.spark.row_level import (
    NotRowLevel,
    can_be_checked,
    check_repeatable,
    check_row_level,
    reads_rows,
    unread_rows,
)
from strom.pipelines.views.fold import (
    PART,
    RECORD,
    ViewFold,
    bind,
    item_column,
    key_column,
    state_columns,
)

log = logging.getLogger(__name__)

_READS_ROWS = (
    "`prepare` reads its rows (collect, count, show, first, checkpoint, …), but it sees only one "
    "micro-batch of the log. Only transform each row; for totals, use keys and measures."
)


def bind_with_spark(
    spark: SparkSession, view: View, folder: Path
) -> tuple[ViewFold, dict[str, str]]:
    """Bind a view to the types that Spark infers, before any record is read.

    Also returns the types of the columns and of the expressions in measures.
    """
    try:
        source = unread_rows(spark, view.stream)
        rows = prepared(view, source.rows, folder)
        if checked := can_be_checked(rows):
            check_row_level(source, rows)
        elif any(step.prepare for step in view.steps):
            log.warning("`prepare` of %s is not validated: Spark Connect has no plans", view.name)
        records = rows.select(f"{RECORD}.*") if view.rolls_up else rows
        fields = [*rows.schema.fields, *records.schema.fields]
        columns = {one.name: one.dataType.simpleString() for one in fields if one.name != RECORD}
        inferred: dict[str, str] = {}

        def type_of(text: str) -> str:
            inferred[text] = records.selectExpr(text).schema.fields[0].dataType.simpleString()
            return inferred[text]

        fold = bind(view, columns, type_of)
        states = partial(fold, rows)
        _ = states.schema  # resolves every expression
        if checked:
            check_repeatable(states)
    except NotRowLevel as reason:
        raise DefinitionError(view.place, f"View {view.name} {reason}") from None
    except PySparkException as error:
        if reads_rows(error):
            raise DefinitionError(raised_at(error, view.place), _READS_ROWS) from None
        raise DefinitionError(view.place, f"View {view.name}: {_summary(error)}") from None
    return fold, {**columns, **inferred}


def partial(fold: ViewFold, rows: DataFrame) -> DataFrame:
    """One row of partial state per key (and item, for tallies)."""
    view = fold.view
    if view.appends:
        return rows.drop("_key")
    rows = windowed(view, rows)
    if view.rolls_up:
        rows = _unpack_records(view, rows)
    if "_offset" not in rows.columns:  # `prepare` may drop it; the measures first and last read it
        rows = rows.withColumn("_offset", sf.lit(-1).cast("bigint"))
    if fold.tallies:
        rows = _by_parts(fold, rows)
    states = [
        _state(fold, name, state.partial.spark).alias(state_columns(name, one)[state.name])
        for name, one in fold.folds.items()
        for state in one.states
    ]
    made = rows.groupBy(*fold.grouping_of_rows).agg(*states)
    if not view.rolls_up:
        return made
    return made.withColumnsRenamed({key_column(name): name for name in view.key_names})


def _unpack_records(view: View, rows: DataFrame) -> DataFrame:
    """The records to measure; keys are renamed, since a record may have columns of the same names."""
    keys = [sf.col(name).alias(key_column(name)) for name in view.key_names]
    return rows.select(*keys, f"{RECORD}.*")


def _state(fold: ViewFold, name: str, text: str) -> Column:
    if not fold.tallies:
        return sf.expr(text)
    return sf.expr(f"CASE WHEN {PART} = {fold.parts.get(name, 0)} THEN {text} END")


def _by_parts(fold: ViewFold, rows: DataFrame) -> DataFrame:
    """Duplicate each row: once for plain measures, and once for every tally that it has an item in."""
    numbers = sf.array(*(sf.lit(number) for number in range(len(fold.tallies) + 1)))
    rows = rows.withColumn(PART, sf.explode(numbers))
    present = sf.col(PART) == 0
    for name, one in fold.tallies.items():
        if one.item is not None:
            item = sf.when(sf.col(PART) == fold.parts[name], sf.expr(one.item.spark))
            rows = rows.withColumn(item_column(name), item)
            present = present | sf.col(item_column(name)).isNotNull()
    return rows.where(present)


def _summary(error: Exception) -> str:
    """The first line of Spark's message, without error condition, position and query plan."""
    text = str(error).strip().split("SQLSTATE")[0].split("; line")[0]
    first = text.splitlines()[0] if text else type(error).__name__
    return first.partition("] ")[2] or first
