"""Measures that pick one value: min, max, first and last by time. All are exact."""

from dataclasses import dataclass
from typing import ClassVar

from strom.pipelines.definitions.types import is_plain_name
from strom.pipelines.measures.measure import Fold, Measure, Rows, Sql, State, applied, quoted

_UNORDERED = ("map", "variant")


def min(column: str) -> Measure:  # noqa: A001 - the name in SQL
    """The least value of a column."""
    return Extreme(column, "min")


def max(column: str) -> Measure:  # noqa: A001 - the name in SQL
    """The greatest value of a column."""
    return Extreme(column, "max")


def first(column: str, by: str | None = None) -> Measure:
    """The earliest value that is not null, by event time or by another column.

    Among values with the same time, the one that was written first to its partition.
    """
    return Chosen(column, "first", by)


def last(column: str, by: str | None = None) -> Measure:
    """The latest value that is not null, by event time or by another column."""
    return Chosen(column, "last", by)


@dataclass(frozen=True)
class _Picking(Measure):
    which: str = ""
    kind: ClassVar[str] = "extreme"

    def problem_with(self, type_name: str) -> str | None:
        """Rejects types without an order."""
        if type_name.startswith(_UNORDERED):
            return f"{self.which} needs values with an order, but {self.column} is {type_name}."
        return None

    def describe(self) -> str:
        """The measure as the user wrote it."""
        return f"{self.which}({self.column})"

    def _value(self, rows: Rows) -> Sql:
        """The compared value; strings that an expression makes of bytes are made valid first."""
        value, column = quoted(self.column), self.column or ""
        if is_plain_name(column) or rows.type_of(column) != "string":
            return value
        return Sql(f"make_valid_utf8({value.spark})", value.duckdb)


@dataclass(frozen=True)
class Extreme(_Picking):
    """The least or the greatest value."""

    def fold(self, rows: Rows) -> Fold:
        """The extreme of the extremes."""
        value = self._value(rows)
        state = State("v", applied(self.which, value), f"{self.which}({{}})")
        return Fold((state,), "{v}")


@dataclass(frozen=True)
class Chosen(_Picking):
    """The value at the least or greatest (time, offset)."""

    by: str | None = None

    def inputs(self, time: str) -> list[str]:
        """The value, and the columns that order it."""
        return [self.column or "", self.by or time]

    def fold(self, rows: Rows) -> Fold:
        """The extreme of (time, offset, value): the value breaks ties."""
        function = "min" if self.which == "first" else "max"
        value, time = self._value(rows), quoted(self.by or rows.time)

        def when(column: str, at: str, struct: str) -> str:
            present = f"{column} IS NOT NULL AND {at} IS NOT NULL"
            return f"{function}(CASE WHEN {present} THEN {struct} END)"

        partial = Sql(
            when(
                value.spark,
                time.spark,
                f"named_struct('at', {time.spark}, 'o', `_offset`, 'v', {value.spark})",
            ),
            when(
                value.duckdb,
                time.duckdb,
                f"{{'at': {time.duckdb}, 'o': \"_offset\", 'v': {value.duckdb}}}",
            ),
        )
        return Fold((State("v", partial, f"{function}({{}})"),), "struct_extract({v}, 'v')")
