"""Measures that count items: quantiles by log buckets, top-k, collect-set, exact distinct.

Merging is exact. The state is one row per key and item, so it grows with the number of items.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from strom.model.errors import UserError
from strom.pipelines.definitions.types import is_number
from strom.pipelines.measures.measure import EXACT, Fold, Measure, Rows, Sql, State, both, quoted

_LEAST = 1e-9
"""Numbers closer to zero count as zero in log buckets."""
_COUNTED = State("n", both("count(*)"), "CAST(sum({}) AS BIGINT)")


def top_k(column: str, k: int) -> Measure:
    """The k most frequent values with their counts, most frequent first, ties by value."""
    if k < 1:
        raise UserError("top_k needs a k of at least 1.")
    return TopK(column, k)


def collect_set(column: str) -> Measure:
    """All distinct values that are not null, sorted."""
    return CollectSet(column)


@dataclass(frozen=True)
class Tally(Measure):
    """Counts the values of a column."""

    kind: ClassVar[str] = "tally"
    finish: ClassVar[str] = ""

    def fold(self, rows: Rows) -> Fold:
        """The count of each item."""
        return Fold((_COUNTED,), self.finishing(), self.item())

    def item(self) -> Sql:
        """The counted expression; null is not counted."""
        return quoted(self.column)

    def finishing(self) -> str:
        """The aggregate over (item, n)."""
        return self.finish


@dataclass(frozen=True)
class TopK(Tally):
    """The most frequent values with their counts."""

    k: int = 10
    kind: ClassVar[str] = "top_k"

    def finishing(self) -> str:
        """The first k items by count."""
        pair = "{{'item': {item}, 'count': {n}}}"
        ordered = f"list({pair} ORDER BY {{n}} DESC, {{item}}) FILTER ({{rows}})"
        return f"list_slice(coalesce({ordered}, []), 1, {self.k})"

    def describe(self) -> str:
        """The measure as the user wrote it."""
        return f"top_k({self.column}, {self.k})"


@dataclass(frozen=True)
class CollectSet(Tally):
    """All distinct values of a column."""

    kind: ClassVar[str] = "collect_set"
    finish: ClassVar[str] = "coalesce(list({item} ORDER BY {item}) FILTER ({rows}), [])"


@dataclass(frozen=True)
class ExactDistinct(Tally):
    """The number of distinct values, by storing all of them."""

    kind: ClassVar[str] = "distinct"
    finish: ClassVar[str] = "count({item}) FILTER ({rows})"


@dataclass(frozen=True)
class LogBucketQuantile(Tally):
    """A quantile from counts of logarithmic buckets.

    A bucket holds the numbers between two neighbouring powers of γ = (1+e)/(1−e). Every number in it is
    within the relative error e of the bucket's representative.
    """

    q: float = 0.5
    error: float = 0.01
    kind: ClassVar[str] = "quantile"
    exactness: ClassVar[str] = f"{EXACT} to merge; the value within the relative error asked for"

    def problem_with(self, type_name: str) -> str | None:
        """Rejects all types but numbers, which have logarithms."""
        if is_number(type_name):
            return None
        return f"quantile needs a number, but {self.column} is {type_name}."

    def item(self) -> Sql:
        """The bucket's number: 0 for zero, positive and negative for such numbers."""
        column = quoted(self.column)
        return Sql(self._bucket(column.spark), self._bucket(column.duckdb))

    def finishing(self) -> str:
        """The representative of the bucket that contains the rank."""
        rank = f"greatest(1, ceil({self.q!r} * {{total}}))"
        bucket = f"min({{item}}) FILTER ({{rows}} AND {{running}} >= {rank})"
        power = f"pow({self._gamma!r}, abs({bucket}) - 1 + ({self._first}))"
        middle = 2 / (1 + self._gamma)
        return f"sign({bucket}) * {power} * {middle!r}"

    def describe(self) -> str:
        """The measure as the user wrote it."""
        return f"quantile({self.column}, {self.q})"

    @property
    def _gamma(self) -> float:
        return (1 + self.error) / (1 - self.error)

    @property
    def _first(self) -> int:
        """The power of γ below which numbers count as zero."""
        return math.floor(math.log(_LEAST) / math.log(self._gamma))

    def _bucket(self, column: str) -> str:
        number = f"CAST({column} AS DOUBLE)"
        power = f"ceil(ln(abs({number})) / {math.log(self._gamma)!r})"
        index = f"CAST(sign({number}) * ({power} - ({self._first}) + 1) AS INT)"
        usable = f"{column} IS NOT NULL AND NOT isnan({number}) AND abs({number}) < 1e300"
        bucket = f"CASE WHEN abs({number}) <= {_LEAST!r} THEN 0 ELSE {index} END"
        return f"CASE WHEN {usable} THEN {bucket} END"
