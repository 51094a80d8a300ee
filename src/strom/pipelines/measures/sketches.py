"""Measures of bounded size and known error: distinct (HLL), quantiles (KLL).

Spark creates the bytes of Apache DataSketches, and `serving/sketch_functions.py` merges the same bytes.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from strom.model.errors import UserError
from strom.pipelines.definitions.types import is_number
from strom.pipelines.measures.measure import Fold, Measure, Rows, Sql, State, applied, quoted
from strom.pipelines.measures.tallies import ExactDistinct, LogBucketQuantile

_HASHABLE = frozenset({"int", "bigint", "string", "binary"})
_KLL_K = 200


def distinct(column: str, *, error: float = 0.02, exact: bool = False) -> Measure:
    """The number of distinct values: by an HLL sketch, or exactly, by storing all of them."""
    if exact:
        return ExactDistinct(column)
    # The relative standard error of an HLL of 2^k registers is 1.04 / sqrt(2^k).
    log2_registers = math.ceil(2 * math.log2(1.04 / error)) if 0 < error < 1 else 0
    if not 4 <= log2_registers <= 18:
        raise UserError("distinct needs an error between 0.0025 and 0.25; or exact=True.")
    return HllDistinct(column, log2_registers)


def quantile(
    column: str,
    q: float,
    *,
    error: float = 0.01,
    method: Literal["log buckets", "kll"] = "log buckets",
) -> Measure:
    """The value below which the fraction q of all values lies.

    By log buckets: within the relative `error` of a value at that rank. By `kll`: a value whose rank is
    within about 1.7 % of the requested one, in a state of bounded size.
    """
    if not 0 <= q <= 1:
        raise UserError(f"quantile needs a fraction between 0 and 1, not {q}.")
    if method == "kll":
        return KllQuantile(column, q)
    if not 0.0001 <= error <= 0.5:
        raise UserError("quantile needs an error between 0.0001 and 0.5.")
    return LogBucketQuantile(column, q, error)


@dataclass(frozen=True)
class HllDistinct(Measure):
    """An estimate by a HyperLogLog sketch."""

    log2_registers: int = 12
    kind: ClassVar[str] = "distinct"
    exactness: ClassVar[str] = (
        "an estimate with the standard error asked for; merging may move it within that error"
    )

    def fold(self, rows: Rows) -> Fold:
        """Sketch, union, estimate; the estimate is always that of a union."""
        column = quoted(self.column)
        if rows.type_of(self.column or "") not in _HASHABLE:
            column = Sql(f"CAST({column.spark} AS STRING)", f"CAST({column.duckdb} AS VARCHAR)")
        k = self.log2_registers
        partial = Sql(
            f"hll_sketch_agg({column.spark}, {k})",
            f"hll_sketch(list({column.duckdb}::VARCHAR), {k})",
        )
        return Fold((State("hll", partial, "hll_union(list({}))"),), "hll_estimate({hll})")


@dataclass(frozen=True)
class KllQuantile(Measure):
    """An estimate by a KLL sketch."""

    q: float = 0.5
    kind: ClassVar[str] = "quantile"
    exactness: ClassVar[str] = "a value whose rank is within about 1.7 % of the one asked for"

    def problem_with(self, type_name: str) -> str | None:
        """Rejects all types but numbers."""
        if is_number(type_name):
            return None
        return f"quantile needs a number, but {self.column} is {type_name}."

    def fold(self, rows: Rows) -> Fold:
        """Sketches of the values, their union, and its quantile."""
        partial = Sql(
            applied(
                f"kll_sketch_agg_double(CAST({{}} AS DOUBLE), {_KLL_K})", quoted(self.column)
            ).spark,
            applied("kll_sketch(list(CAST({} AS DOUBLE)))", quoted(self.column)).duckdb,
        )
        state = State("kll", partial, "kll_union(list({}))")
        return Fold((state,), f"kll_quantile({{kll}}, {self.q!r})")

    def describe(self) -> str:
        """The measure as the user wrote it."""
        return f"quantile({self.column}, {self.q}, kll)"
