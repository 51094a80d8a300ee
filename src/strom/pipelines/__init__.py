"""Define streams and views with these names; `strom run` computes and serves them."""

from strom.pipelines.definitions.keys import window
from strom.pipelines.definitions.stream import Stream, Table
from strom.pipelines.definitions.view import View
from strom.pipelines.measures import (
    collect_set,
    count,
    distinct,
    first,
    last,
    max,  # noqa: A004
    mean,
    measure,
    min,  # noqa: A004
    quantile,
    rollup,
    sum,  # noqa: A004
    top_k,
    variance,
)
from strom.pipelines.project import Project, load_project

__all__ = [
    "Project",
    "Stream",
    "Table",
    "View",
    "collect_set",
    "count",
    "distinct",
    "first",
    "last",
    "load_project",
    "max",
    "mean",
    "measure",
    "min",
    "quantile",
    "rollup",
    "sum",
    "top_k",
    "variance",
    "window",
]
