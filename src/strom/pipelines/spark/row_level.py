"""Whether rows were made one by one: what looks at several at once is no part of a fold.

A micro-batch is a piece of the log that nobody has chosen. The duplicates, the first rows or the groups
of a piece are not those of the whole: batch and speed layer would disagree, and nobody would be told.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OF_SEVERAL_ROWS = {
    "Aggregate": "groups rows",
    "Deduplicate": "removes duplicates",
    "Distinct": "removes duplicates",
    "GlobalLimit": "takes a number of rows",
    "LocalLimit": "takes a number of rows",
    "Offset": "leaves out a number of rows",
    "Tail": "takes a number of rows",
    "Window": "looks at neighbouring rows",
    "Sample": "takes rows by chance",
    "Intersect": "compares all rows",
    "Except": "compares all rows",
}


def beyond_single_rows(source: "DataFrame", made: "DataFrame") -> str | None:
    """What was done to several rows of the source at once, in words; None if nothing was.

    Tables that are joined may be grouped: they are the same for every piece of the log.
    """
    if not hasattr(made, "_jdf"):  # Spark Connect does not tell
        return None
    return _found(_plan(made), _column_ids(_plan(source)))


def _plan(rows: "DataFrame") -> Any:
    return rows._jdf.queryExecution().analyzed()


def _found(plan: Any, source: set[str]) -> str | None:
    if not any(_column_ids(leaf) & source for leaf in _each(plan.collectLeaves())):
        return None
    if told := _OF_SEVERAL_ROWS.get(plan.nodeName()):
        return told
    return next((told for one in _each(plan.children()) if (told := _found(one, source))), None)


def _column_ids(plan: Any) -> set[str]:
    return {column.exprId().toString() for column in _each(plan.output())}


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]
