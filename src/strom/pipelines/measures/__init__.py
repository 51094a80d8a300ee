"""The measures, one module per family."""

from strom.pipelines.measures.custom import measure
from strom.pipelines.measures.extremes import first, last, max, min  # noqa: A004
from strom.pipelines.measures.measure import Measure
from strom.pipelines.measures.rollups import Rollup, rollup
from strom.pipelines.measures.sketches import distinct, quantile
from strom.pipelines.measures.sums import count, mean, sum, variance  # noqa: A004
from strom.pipelines.measures.tallies import collect_set, top_k

__all__ = [
    "Measure",
    "Rollup",
    "collect_set",
    "count",
    "distinct",
    "first",
    "last",
    "max",
    "mean",
    "measure",
    "min",
    "quantile",
    "rollup",
    "sum",
    "top_k",
    "variance",
]
