"""Measures that add up: count, sum, mean, variance."""

from dataclasses import dataclass
from typing import ClassVar

from strom.pipelines.definitions.types import FLOATS, SMALL_INTEGERS, is_decimal, is_number
from strom.pipelines.measures.measure import (
    EXACT,
    Fold,
    Measure,
    Rows,
    Sql,
    State,
    applied,
    quoted,
)

FLOAT_SUM = "exact for integers and decimals; for floats up to rounding, about n · 1e-16 relative"
# DuckDB would give HUGEINT, which Parquet has not.
_ADD = "CAST(sum({}) AS %s)"


def count(column: str | None = None) -> Measure:
    """How many rows; with a column, how many in which it is not null."""
    return Count(column)


def sum(column: str) -> Measure:  # noqa: A001 - the name that everyone looks for
    """The sum of a column; null where no row has a value."""
    return Sum(column)


def mean(column: str) -> Measure:
    """The mean of a column."""
    return Mean(column)


def variance(column: str) -> Measure:
    """The sample variance of a column; null for fewer than two values."""
    return Variance(column)


@dataclass(frozen=True)
class Count(Measure):
    """How many rows."""

    kind: ClassVar[str] = "count"
    exactness: ClassVar[str] = EXACT

    def fold(self, rows: Rows) -> Fold:
        """Count, then add."""
        states = State("n", applied("count", quoted(self.column)), _ADD % "BIGINT")
        return Fold((states,), "coalesce({n}, 0)")


@dataclass(frozen=True)
class _OfNumbers(Measure):
    def problem_with(self, type_name: str) -> str | None:
        """Only numbers can be added."""
        if is_number(type_name):
            return None
        return f"{self.kind} needs a number, and {self.column} is {type_name}."


@dataclass(frozen=True)
class Sum(_OfNumbers):
    """The sum."""

    kind: ClassVar[str] = "sum"
    exactness: ClassVar[str] = FLOAT_SUM

    def fold(self, rows: Rows) -> Fold:
        """Add, then add."""
        return Fold((sum_state("s", self.column or "", rows),), "{s}")


@dataclass(frozen=True)
class Mean(_OfNumbers):
    """Sum by count."""

    kind: ClassVar[str] = "mean"
    exactness: ClassVar[str] = FLOAT_SUM

    def fold(self, rows: Rows) -> Fold:
        """Sum and count; dividing waits until the end."""
        n = State("n", applied("count", quoted(self.column)), _ADD % "BIGINT")
        finish = "CAST({s} AS DOUBLE) / nullif({n}, 0)"
        return Fold((sum_state("s", self.column or "", rows), n), finish)


@dataclass(frozen=True)
class Variance(_OfNumbers):
    """From count, sum and sum of squares.

    For integers and decimals these are exact. For floats the difference at the end loses digits when
    the values lie far from zero and close together; shift them in `prepare` then.
    """

    kind: ClassVar[str] = "variance"
    exactness: ClassVar[str] = (
        "exact for integers and decimals; for floats up to rounding, about n · 1e-16 · mean²/variance"
    )

    def fold(self, rows: Rows) -> Fold:
        """Count, sum, sum of squares."""
        number = quoted(self.column)
        n = State("n", applied("count", number), _ADD % "BIGINT")
        kind = rows.type_of(self.column or "")
        if kind in FLOATS:
            q = State("q", _square_sum(number, "DOUBLE"), "sum({})")
            top = "({q} - {s} * {s} / {n})"
        else:
            wide = f"DECIMAL(18,{_scale(kind)})"
            square = f"DECIMAL(38,{2 * _scale(kind)})"
            q = State("q", _square_sum(number, wide, square), _ADD % square)
            # Doubles only at the end, from sums that lost nothing.
            top = "(CAST({q} AS DOUBLE) - CAST({s} AS DOUBLE) * CAST({s} AS DOUBLE) / {n})"
        finish = f"CASE WHEN {{n}} > 1 THEN greatest(0, {top}) / ({{n}} - 1) END"
        return Fold((n, sum_state("s", self.column or "", rows), q), finish)


def sum_state(name: str, column: str, rows: Rows) -> State:
    """A sum in a type that does not overflow in practice, and that Parquet has."""
    kind = rows.type_of(column)
    number = quoted(column)
    if kind in FLOATS:
        return State(name, applied("sum(CAST({} AS DOUBLE))", number), "sum({})")
    if kind in SMALL_INTEGERS:
        return State(name, applied("CAST(sum({}) AS BIGINT)", number), _ADD % "BIGINT")
    wide = f"DECIMAL(38,{_scale(kind)})"
    return State(name, applied(f"CAST(sum(CAST({{}} AS {wide})) AS {wide})", number), _ADD % wide)


def _square_sum(number: Sql, wide: str, result: str | None = None) -> Sql:
    def of(column: str) -> str:
        total = f"sum(CAST({column} AS {wide}) * CAST({column} AS {wide}))"
        return f"CAST({total} AS {result})" if result else total

    return Sql(of(number.spark), of(number.duckdb))


def _scale(kind: str) -> int:
    return int(kind.partition(",")[2].rstrip(")") or 0) if is_decimal(kind) else 0
