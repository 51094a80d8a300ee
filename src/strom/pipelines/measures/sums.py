"""Measures by addition: count, sum, mean, variance."""

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
# DuckDB would return HUGEINT, which Parquet does not have.
_ADD = "CAST(sum({}) AS %s)"
_EXACT_DIGITS = 12
"""The limit on the digits of a number whose square is added exactly."""
_SQUARE = "{0} * {0}"
_DOUBLE = "CAST({0} AS DOUBLE)"


def count(column: str | None = None) -> Measure:
    """The number of rows; with a column, of those in which it is not null."""
    return Count(column)


def sum(column: str) -> Measure:  # noqa: A001 - the name in SQL
    """The sum of a column; null if no row has a value."""
    return Sum(column)


def mean(column: str) -> Measure:
    """The mean of a column."""
    return Mean(column)


def variance(column: str) -> Measure:
    """The sample variance of a column; null for fewer than two values."""
    return Variance(column)


@dataclass(frozen=True)
class Count(Measure):
    """The number of rows, or of values."""

    kind: ClassVar[str] = "count"
    exactness: ClassVar[str] = EXACT

    def fold(self, rows: Rows) -> Fold:
        """Counts of the rows, which are added."""
        states = State("n", applied("count", quoted(self.column)), _ADD % "BIGINT")
        return Fold((states,), "coalesce({n}, 0)")


@dataclass(frozen=True)
class _OfNumbers(Measure):
    def problem_with(self, type_name: str) -> str | None:
        """Rejects all types but numbers."""
        if is_number(type_name):
            return None
        return f"{self.kind} needs a number, but {self.column} is {type_name}."


@dataclass(frozen=True)
class Sum(_OfNumbers):
    """The sum of a column."""

    kind: ClassVar[str] = "sum"
    exactness: ClassVar[str] = FLOAT_SUM

    def fold(self, rows: Rows) -> Fold:
        """Sums of the rows, which are added."""
        return Fold((sum_state("s", self.column or "", rows),), "{s}")


@dataclass(frozen=True)
class Mean(_OfNumbers):
    """The sum divided by the count."""

    kind: ClassVar[str] = "mean"
    exactness: ClassVar[str] = FLOAT_SUM

    def fold(self, rows: Rows) -> Fold:
        """Sum and count; the division comes last."""
        n = State("n", applied("count", quoted(self.column)), _ADD % "BIGINT")
        finish = "CAST({s} AS DOUBLE) / nullif({n}, 0)"
        return Fold((sum_state("s", self.column or "", rows), n), finish)


@dataclass(frozen=True)
class Variance(_OfNumbers):
    """From count, sum and sum of squares.

    Squares of integers and decimals of up to twelve digits are added exactly; those of larger ones, of
    which a few would exceed 38 digits, as floats beside them. For floats the difference at the end
    loses digits if the values are far from zero and close together; then shift them in `prepare`.
    """

    kind: ClassVar[str] = "variance"
    exactness: ClassVar[str] = (
        "exact for integers and decimals of up to 12 digits; else up to rounding, about "
        "n · 1e-16 · mean²/variance"
    )

    def fold(self, rows: Rows) -> Fold:
        """Count, sum, sum of squares."""
        kind = rows.type_of(self.column or "")
        n = State("n", applied("count", quoted(self.column)), _ADD % "BIGINT")
        s = sum_state("s", self.column or "", rows)
        squares, top = self._floating() if _needs_floats(kind) else self._exact(kind)
        finish = f"CASE WHEN {{n}} > 1 THEN greatest(0, {top}) / ({{n}} - 1) END"
        return Fold((n, s, *squares), finish)

    def _floating(self) -> tuple[tuple[State, ...], str]:
        """Squares as floats, and the sum of their squared differences."""
        squares = _both_by(f"sum({_SQUARE})", _both_by(_DOUBLE, quoted(self.column)))
        return (State("q", squares, "sum({})"),), _difference("{q}")

    def _exact(self, kind: str) -> tuple[tuple[State, ...], str]:
        """Squares of small numbers as decimals, of large ones as floats."""
        number, scale = quoted(self.column), _scale(kind)
        square = f"DECIMAL(38,{2 * scale})"
        bound = f"1e{_EXACT_DIGITS - scale}"
        small = f"{{0}} BETWEEN -{bound} AND {bound}"

        def near(digits: int, column: str) -> str:
            # The sum cannot overflow: 10^14 squares of twelve digits fit into 38 digits.
            factor = f"CAST({column} AS DECIMAL({digits},{scale}))"
            squares = f"CASE WHEN {small.format(column)} THEN {factor} * {factor} END"
            return f"CAST(sum({squares}) AS {square})"

        # A product has the digits of both factors in Spark, which supports 38, and of one in DuckDB.
        squares = Sql(near(18, number.spark), near(38, number.duckdb))
        q = State("q", squares, _ADD % square)
        if kind in SMALL_INTEGERS:
            return (q,), _exact_difference(scale, otherwise=_difference("{q}"))
        far = f"sum(CASE WHEN NOT ({small}) THEN {_SQUARE.format(_DOUBLE)} END)"
        h = State("h", _both_by(far, number), "sum({})")
        both = "(coalesce(CAST({q} AS DOUBLE), 0) + coalesce({h}, 0))"
        exact = _exact_difference(scale, otherwise=_difference(both))
        return (q, h), f"CASE WHEN {{h}} IS NULL THEN {exact} ELSE {_difference(both)} END"


def _needs_floats(kind: str) -> bool:
    return kind in FLOATS or _scale(kind) > _EXACT_DIGITS


def _difference(squares: str) -> str:
    """The sum of squared differences from the mean, in floats."""
    return f"(CAST({squares} AS DOUBLE) - CAST({{s}} AS DOUBLE) * CAST({{s}} AS DOUBLE) / {{n}})"


def _exact_difference(scale: int, *, otherwise: str) -> str:
    """The same in decimals, if n · q and s · s fit into 38 digits."""
    s = f"CAST({{s}} AS DECIMAL(38,{scale}))"
    exact = f"CAST(CAST({{n}} AS DECIMAL(38,0)) * {{q}} - {s} * {s} AS DOUBLE) / {{n}}"
    # By the Cauchy–Schwarz inequality, s · s is at most n · q.
    fits = f"CAST({{n}} AS DOUBLE) * CAST({{q}} AS DOUBLE) < 1e{36 - 2 * scale}"
    return f"CASE WHEN {fits} THEN {exact} ELSE {otherwise} END"


def _both_by(template: str, number: Sql) -> Sql:
    """A template with {0} for the number, in both engines."""
    return Sql(template.format(number.spark), template.format(number.duckdb))


def sum_state(name: str, column: str, rows: Rows) -> State:
    """A sum in a type that does not overflow in practice, and that Parquet supports."""
    kind = rows.type_of(column)
    number = quoted(column)
    if kind in FLOATS:
        return State(name, applied("sum(CAST({} AS DOUBLE))", number), "sum({})")
    if kind in SMALL_INTEGERS:
        return State(name, applied("CAST(sum({}) AS BIGINT)", number), _ADD % "BIGINT")
    wide = f"DECIMAL(38,{_scale(kind)})"
    return State(name, applied(f"CAST(sum(CAST({{}} AS {wide})) AS {wide})", number), _ADD % wide)


def _scale(kind: str) -> int:
    return int(kind.partition(",")[2].rstrip(")") or 0) if is_decimal(kind) else 0
