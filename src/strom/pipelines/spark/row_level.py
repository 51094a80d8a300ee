"""Validates that each row of a view depends on one record only.

The boundaries of micro-batches are arbitrary. The result for two parts of the log must equal the result
for both at once, also on a replay: f(A ∪ B) = f(A) ∪ f(B). Joins that add rows of the other side,
aggregations, deduplication, subqueries over the stream and nondeterministic functions break this law:
batch and speed layer would silently disagree.

So every node of the query plan is checked, and only nodes that are known to keep the law are accepted.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from strom.pipelines.definitions.stream import Stream

TABLE_MARK = "strom_table_"
"""The alias prefix of static tables in plans: their files belong to the view's definition."""
_SOURCE_MARK = "strom_source"
_READ = "strom: these rows can be described, not read"
"""The error of an action on the rows of a plan that is only analyzed."""

_ROW_BY_ROW = {
    "CTERelationDef",
    "Expand",
    "Filter",
    "Generate",
    "LateralJoin",
    "Project",
    "RebalancePartitions",
    "Repartition",
    "RepartitionByExpression",
    "ResolvedHint",
    "Sort",
    "SubqueryAlias",
    "View",
    "WithCTE",
}
_ACROSS_ROWS = {
    "Aggregate": "groups rows",
    "Deduplicate": "removes duplicates",
    "Distinct": "removes duplicates",
    "GlobalLimit": "limits the number of rows",
    "LocalLimit": "limits the number of rows",
    "Offset": "skips a number of rows",
    "Tail": "limits the number of rows",
    "Window": "reads neighbouring rows",
    "Sample": "samples rows",
    "Intersect": "compares all rows",
    "Except": "compares all rows",
}
_MEASURE_INSTEAD = (
    " before it measures; each row must depend on one record only, or the parts of the log would not "
    "add up. Use keys and measures, or do it in a query over the view."
)
_CONSTANT = {"LocalRelation", "OneRowRelation", "Range"}
_KEEPS_LEFT = {"Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti"}
_KEEPS_RIGHT = {"Inner", "Cross", "RightOuter"}
_GENERATED_VIEW_PREFIX = "_pyspark_"
"""PySpark registers the {arguments} of a statement under unique names with this prefix."""
_AGGREGATE = "org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction"
_PYTHON_TABLE_FUNCTION = "org.apache.spark.sql.catalyst.expressions.PythonUDTF"


class NotRowLevel(Exception):
    """How a plan violates the law; the message continues "View NAME …"."""


@dataclass(frozen=True)
class UnreadRows:
    """The rows of a stream for a plan that is analyzed and never executed: an action on them fails."""

    rows: DataFrame
    name: str
    """Of their RDD, to find it in the lineage of an RDD or checkpoint made from them."""


def unread_rows(spark: SparkSession, stream: Stream) -> UnreadRows:
    """Rows with the columns of a stream, marked in plans by an alias."""
    name = f"{_SOURCE_MARK}_{uuid.uuid4().hex}"
    columns = [f"CAST(NULL AS {kind}) AS `{column}`" for column, kind in stream.columns.items()]
    if not hasattr(spark, "_jsparkSession"):  # Spark Connect
        rows = spark.range(1)
    else:
        seed = spark.sparkContext.parallelize([(1,)], 1)
        seed.setName(name)
        rows = spark.createDataFrame(seed, "one INT")
    refused = rows.where(sf.raise_error(sf.lit(_READ)).isNull())
    return UnreadRows(refused.selectExpr(*columns).alias(name), name)


def check_row_level(source: UnreadRows, made: DataFrame) -> None:
    """Raise NotRowLevel unless each row depends on one row of the source.

    Joined tables may be aggregated: they are the same for every part of the log.
    """
    if not _LineageOf(source.name).reads(_plan(made)):
        raise NotRowLevel(
            "does not use the rows that `prepare` gets: its result would be counted again with each "
            "micro-batch. Return rows derived from them."
        )


def check_repeatable(made: DataFrame) -> None:
    """Raise NotRowLevel if an expression is nondeterministic or depends on time or session."""
    plan = _plan(made)
    jvm = made.sparkSession._jvm
    current = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()  # type: ignore[union-attr]
    if plan.deterministic() and not plan.containsPattern(current):
        return
    for node in _nodes(plan):
        for expression in _each(node.expressions()):
            for part in _parts(expression):
                if _is_nondeterministic(part, current):
                    raise NotRowLevel(
                        f"uses {part.sql()}, which returns another value each time: batch, speed layer "
                        "and replay would not agree. Use columns of the record, such as its event time "
                        "or _timestamp, _partition and _offset."
                    )


def reads_rows(error: "PySparkException") -> bool:
    """Whether an action on unread rows caused the error."""
    return error.getCondition() == "USER_RAISED_EXCEPTION" and _READ in str(error)


def can_be_checked(rows: DataFrame) -> bool:
    """Whether the query plan is accessible; not with Spark Connect."""
    return hasattr(rows, "_jdf")


@dataclass(frozen=True)
class _LineageOf:
    """Determines which parts of a plan derive from the source."""

    source: str
    shared: dict[int, bool] = field(default_factory=dict)
    """By id of a common table expression: whether it derives from the source."""

    def reads(self, plan: Any) -> bool:
        """Whether a plan reads the source; NotRowLevel if it breaks the law."""
        node = plan.nodeName()
        if node == "SubqueryAlias" and (mark := plan.alias()).startswith((self.source, TABLE_MARK)):
            return bool(mark == self.source)
        for inner in _each(plan.subqueries()):
            if self._contains_source(inner) or self.reads(inner):
                raise NotRowLevel(
                    "has a subquery over the stream: it would see one micro-batch at a time. Use a "
                    "subquery over a table, or do it in a query over the view."
                )
        children = _each(plan.children())
        if not children:
            return self._leaf(node, plan)
        within = [self.reads(child) for child in children]
        if node == "View":
            _check_temporary_view(plan.desc().identifier().table())
        if node == "CTERelationDef":
            self.shared[plan.id()] = within[0]
        if node == "WithCTE":  # the definitions come first, then what uses them
            return within[-1]
        if not any(within):
            if node == "Sample":
                raise NotRowLevel(f"{_ACROSS_ROWS[node]}{_MEASURE_INSTEAD}")
            return False
        self._check(node, plan, within)
        return True

    def _contains_source(self, plan: Any) -> bool:
        """Whether the source occurs anywhere in a plan."""
        if plan.nodeName() == "SubqueryAlias" and plan.alias() == self.source:
            return True
        return any(self._contains_source(child) for child in _each(plan.children()))

    def _check(self, node: str, plan: Any, within: list[bool]) -> None:
        if node == "Join":
            _check_join(plan.joinType().toString(), *within)
        elif node == "Union":
            if not all(within):
                raise NotRowLevel(
                    "adds the rows of a table to those of the stream: they would be counted again with "
                    "each micro-batch. Join with the table instead."
                )
        elif node in _ACROSS_ROWS:
            raise NotRowLevel(f"{_ACROSS_ROWS[node]}{_MEASURE_INSTEAD}")
        elif node not in _ROW_BY_ROW or (node == "Generate" and _is_python(plan.generator())):
            name = "a table function" if node == "Generate" else node
            raise NotRowLevel(
                f"uses {name} of Spark, whose effect on rows cannot be validated. Use columns, "
                "filters, joins with tables, explode, or UDFs of single rows."
            )

    def _leaf(self, node: str, plan: Any) -> bool:
        if node == "CTERelationRef":
            return self.shared[plan.cteId()]
        if node in _CONSTANT:
            return False
        if node == "LogicalRDD":
            if self.source in plan.rdd().toDebugString():
                raise NotRowLevel(
                    "turns its rows into an RDD or a checkpoint, which cannot be validated. "
                    "Use columns, or UDFs of single rows."
                )
            return False
        raise NotRowLevel(
            f"reads data besides its stream ({node}), whose changes would go unnoticed. Name them in "
            "`tables`, and `prepare` gets them by name."
        )


def _check_join(kind: str, left: bool, right: bool) -> None:
    if left and right:
        raise NotRowLevel(
            "joins the stream with itself: records of different micro-batches would not match. Use "
            "keys and measures, or join in a query over the view."
        )
    if kind not in (_KEEPS_LEFT if left else _KEEPS_RIGHT):
        raise NotRowLevel(
            f"makes a {kind} join, with the stream on the {'left' if left else 'right'}: rows of the "
            "table would be added again with each micro-batch. Use an inner join, or one that keeps "
            "the stream's rows (`left`, with the stream on the left)."
        )


def _check_temporary_view(view: str) -> None:
    """The layers of a project share a session, and with it the names of temporary views."""
    if not view.startswith(_GENERATED_VIEW_PREFIX):
        raise NotRowLevel(
            f"reads rows as the temporary view {view}: a concurrent batch and micro-batch would "
            "read each other's. Pass them to the statement: sparkSession.sql('… {rows} …', rows=rows)."
        )


def _is_python(generator: Any) -> bool:
    return _is_a(_PYTHON_TABLE_FUNCTION, generator)


def _is_nondeterministic(expression: Any, current: Any) -> bool:
    """Whether an expression itself, not one of its children, is nondeterministic."""
    children = _each(expression.children())
    if not children and expression.containsPattern(current):
        return True
    if expression.deterministic() or not all(one.deterministic() for one in children):
        return False
    # Spark marks collect_set and others as nondeterministic because of the order of their elements.
    return not _is_a(_AGGREGATE, expression)


def _nodes(plan: Any) -> Iterator[Any]:
    """The nodes of a plan down to its sources, including subqueries."""
    marks = (_SOURCE_MARK, TABLE_MARK)
    if plan.nodeName() == "SubqueryAlias" and plan.alias().startswith(marks):
        return
    yield plan
    for inner in [*_each(plan.children()), *_each(plan.subqueries())]:
        yield from _nodes(inner)


def _parts(expression: Any) -> Iterator[Any]:
    yield expression
    for child in _each(expression.children()):
        yield from _parts(child)


def _plan(rows: DataFrame) -> Any:
    return rows._jdf.queryExecution().analyzed()


def _is_a(kind: str, value: Any) -> bool:
    from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]
    from pyspark import SparkContext

    return bool(is_instance_of(SparkContext._gateway, value, kind))


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]
