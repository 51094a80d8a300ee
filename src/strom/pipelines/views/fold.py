"""A view bound to the actual types of its rows: the state columns and their SQL.

A row of state belongs to a part. Part 0 holds the plain measures, one row per key. Every tally has its
own part, with one row per key and item.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from strom.pipelines.definitions.keys import Window
from strom.pipelines.definitions.place import DefinitionError
from strom.pipelines.definitions.types import is_plain_name
from strom.pipelines.definitions.view import View, check_against, unknown_column
from strom.pipelines.measures.measure import Fold, Rows, Sql, quoted

PART = "_part"
RECORD = "_record"
"""The struct of the record's columns in a rollup's row, which only measures see."""


@dataclass(frozen=True)
class ViewFold:
    """The fold of a view."""

    view: View
    folds: Mapping[str, Fold]

    @property
    def plain(self) -> dict[str, Fold]:
        """The measures with one state per key."""
        return {name: fold for name, fold in self.folds.items() if fold.item is None}

    @property
    def tallies(self) -> dict[str, Fold]:
        """The measures that count items."""
        return {name: fold for name, fold in self.folds.items() if fold.item is not None}

    @property
    def parts(self) -> dict[str, int]:
        """The part of the state for each tally."""
        return {name: number for number, name in enumerate(self.tallies, start=1)}

    @property
    def grouping(self) -> list[str]:
        """The columns by which states are merged."""
        return [*self.view.key_names, *self._items]

    @property
    def grouping_of_rows(self) -> list[str]:
        """The columns by which rows are folded into states."""
        if self.view.rolls_up is None:
            return self.grouping
        return [*map(key_column, self.view.key_names), *self._items]

    @property
    def _items(self) -> list[str]:
        return [PART, *map(item_column, self.tallies)] if self.tallies else []


def bind(view: View, columns: Mapping[str, str], type_of: Callable[[str], str]) -> ViewFold:
    """Bind a view to these columns; `type_of` returns the type of an expression over them."""
    check_against(view, columns)

    def known_type(text: str) -> str:
        if text in columns:
            return columns[text]
        if is_plain_name(text):
            raise DefinitionError(view.place, unknown_column(text, columns))
        return type_of(text)

    rows = Rows(known_type, view.stream.event_time)
    return ViewFold(view, {name: measure.fold(rows) for name, measure in view.folded.items()})


def state_columns(name: str, fold: Fold) -> dict[str, str]:
    """The columns of a measure's state by the measure's own names."""
    return {state.name: f"{name}__{state.name}" for state in fold.states}


def key_column(name: str) -> str:
    """The name of a rollup's key beside the columns of the record."""
    return f"{name}__key"


def item_column(name: str) -> str:
    """The name of the column with a tally's items."""
    return f"{name}__item"


def window_start(window: Window, time: str) -> Sql:
    """The start of the window; for a sliding one, a list of all starts."""
    column = quoted(time)
    step = window.every_us
    spark_us = f"unix_micros({column.spark})"
    duckdb_us = f"epoch_us({column.duckdb})"
    spark = f"({spark_us} - pmod({spark_us}, {step}L))"
    duckdb = f"({duckdb_us} - (({duckdb_us} % {step}) + {step}) % {step})"
    if window.overlaps == 1:
        return Sql(f"timestamp_micros({spark})", f"make_timestamp({duckdb}) AT TIME ZONE 'UTC'")
    steps = window.overlaps
    return Sql(
        f"transform(sequence(0, {steps - 1}), i -> timestamp_micros({spark} - i * {step}L))",
        f"list_transform(range({steps}), lambda i: "
        f"make_timestamp({duckdb} - i * {step}) AT TIME ZONE 'UTC')",
    )
