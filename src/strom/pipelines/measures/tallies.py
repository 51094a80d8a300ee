"""Measures that count items: quantiles by log buckets, top-k, collect-set, exact distinct.

All are exact to merge. Their state is one row per key and item, so it grows with the items.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from strom.model.errors import UserError
from strom.pipelines.definitions.types import is_number
from strom.pipelines.measures.measure import EXACT, Fold, Measure, Rows, Sql, State, both, quoted

_LEAST = 1e-9
"""Numbers nearer to zero count as zero in log buckets."""
_COUNTED = State("n", both("count(*)"), "CAST(sum({}) AS BIGINT)")


def top_k(column: str, k: int) -> Measure:
    """The k most frequent values with their counts, most frequent first, equals by value."""
    if k < 1:
        raise UserError("top_k needs a k of at least 1.")
    return TopK(column, k)


def collect_set(column: str) -> Measure:
    """All different values that are not null, in order."""
    return CollectSet(column)


@dataclass(frozen=True)
class Tally(Measure):
    """Counts the values of a column."""

    kind: ClassVar[str] = "tally"
    finish: ClassVar[str] = ""

    def fold(self, rows: Rows) -> Fold:
        """How often each item was there."""
        return Fold((_COUNTED,), self.finishing(), self.item())

    def item(self) -> Sql:
        """What is counted; null is not."""
        return quoted(self.column)

    def finishing(self) -> str:
        """The aggregate over (item, n)."""
        return self.finish


@dataclass(frozen=True)
class TopK(Tally):
    """The most frequent."""

    k: int = 10
    kind: ClassVar[str] = "top_k"

    def finishing(self) -> str:
        """The first k of all, by count."""
        pair = "{{'item': {item}, 'count': {n}}}"
        ordered = f"list({pair} ORDER BY {{n}} DESC, {{item}}) FILTER ({{rows}})"
        return f"list_slice(coalesce({ordered}, []), 1, {self.k})"

    def describe(self) -> str:
        """As the user wrote it."""
        return f"top_k({self.column}, {self.k})"


@dataclass(frozen=True)
class CollectSet(Tally):
    """All different values."""

    kind: ClassVar[str] = "collect_set"
    finish: ClassVar[str] = "coalesce(list({item} ORDER BY {item}) FILTER ({rows}), [])"


@dataclass(frozen=True)
class ExactDistinct(Tally):
    """How many different values, by remembering all of them."""

    kind: ClassVar[str] = "distinct"
    finish: ClassVar[str] = "count({item}) FILTER ({rows})"


@dataclass(frozen=True)
class LogBucketQuantile(Tally):
    """A quantile from counts of logarithmic buckets.

    A bucket holds the numbers between two neighbouring powers of γ = (1+e)/(1−e). Any number in it
    is within the relative error e of the one that stands for it.
    """

    q: float = 0.5
    error: float = 0.01
    kind: ClassVar[str] = "quantile"
    exactness: ClassVar[str] = f"{EXACT} to merge; the value within the relative error asked for"

    def problem_with(self, type_name: str) -> str | None:
        """Only numbers have logarithms."""
        if is_number(type_name):
            return None
        return f"quantile needs a number, and {self.column} is {type_name}."

    def item(self) -> Sql:
        """The bucket's number: 0 for zero, above for positive numbers, below for negative ones."""
        column = quoted(self.column)
        return Sql(self._bucket(column.spark), self._bucket(column.duckdb))

    def finishing(self) -> str:
        """The bucket in which the wanted rank lies, as a number."""
        rank = f"greatest(1, ceil({self.q!r} * {{total}}))"
        bucket = f"min({{item}}) FILTER ({{rows}} AND {{running}} >= {rank})"
        power = f"pow({self._gamma!r}, abs({bucket}) - 1 + ({self._first}))"
        middle = 2 / (1 + self._gamma)
        return f"sign({bucket}) * {power} * {middle!r}"

    def describe(self) -> str:
        """As the user wrote it."""
        return f"quantile({self.column}, {self.q})"

    @property
    def _gamma(self) -> float:
        return (1 + self.error) / (1 - self.error)

    @property
    def _first(self) -> int:
        """The power of γ below which everything is zero."""
        return math.floor(math.log(_LEAST) / math.log(self._gamma))

    def _bucket(self, column: str) -> str:
        number = f"CAST({column} AS DOUBLE)"
        power = f"ceil(ln(abs({number})) / {math.log(self._gamma)!r})"
        index = f"CAST(sign({number}) * ({power} - ({self._first}) + 1) AS INT)"
        usable = f"{column} IS NOT NULL AND NOT isnan({number}) AND abs({number}) < 1e300"
        bucket = f"CASE WHEN abs({number}) <= {_LEAST!r} THEN 0 ELSE {index} END"
        return f"CASE WHEN {usable} THEN {bucket} END"
