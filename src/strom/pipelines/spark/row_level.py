"""Whether a view's rows are a function of each record alone: everything else is no part of a fold.

A micro-batch is a piece of the log that nobody has chosen. What is computed of two pieces must be,
together, what is computed of both at once, and the same again on a replay: f(A ∪ B) = f(A) ∪ f(B). Joins
that add rows of their own, groups, duplicates, subqueries over the stream, and functions that return
something else each time break this. Batch and speed layer would disagree, and nobody would notice.

So a plan is read node by node, and only nodes that are known to keep the law are accepted.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from strom.pipelines.definitions.stream import Stream

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

TABLE_MARK = "strom_table_"
"""How static tables are named in plans: their files belong to the view's definition."""
_SOURCE_MARK = "strom_source"
_READ = "strom: these rows can be described, not read"
"""What Spark fails with where the rows of a plan that is only to be looked at are read."""

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
_MEASURE_INSTEAD = (
    " before it measures; rows must be made one by one, or the parts of the log would not add up. "
    "Use keys and measures, or do it in a query over the view."
)
_CONSTANT = {"LocalRelation", "OneRowRelation", "Range"}
_KEEPS_LEFT = {"Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti"}
_KEEPS_RIGHT = {"Inner", "Cross", "RightOuter"}
_UNIQUE_VIEW = "_pyspark_"
"""How PySpark names the rows that a statement gets as {arguments}, each with a number of its own."""
_AGGREGATE = "org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction"
_PYTHON_TABLE_FUNCTION = "org.apache.spark.sql.catalyst.expressions.PythonUDTF"


class NotRowLevel(Exception):
    """What a plan does besides making rows one by one; the text continues "View NAME …"."""


@dataclass(frozen=True)
class UnreadRows:
    """The rows of a stream for a plan that is looked at and never run: an action on them fails."""

    rows: "DataFrame"
    name: str
    """Of the RDD that they begin with; it is found in the lineage of whatever leaves the plan."""


def unread_rows(spark: "SparkSession", stream: Stream) -> UnreadRows:
    """Rows with the columns of a stream, marked in plans."""
    from pyspark.sql import functions as sf

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


def check_row_level(source: UnreadRows, made: "DataFrame") -> None:
    """Raise NotRowLevel if rows were not made one by one out of those of the source.

    Tables that are joined may be grouped: they are the same for every piece of the log.
    """
    if not _LineageOf(source.name).reads(_plan(made)):
        raise NotRowLevel(
            "does not use the rows that `prepare` gets: what it returns would be counted again with each "
            "piece of the log. Return rows that are made of them."
        )


def check_repeatable(made: "DataFrame") -> None:
    """Raise NotRowLevel if an expression can return something else when it is computed again."""
    plan = _plan(made)
    jvm = made.sparkSession._jvm
    current = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()  # type: ignore[union-attr]
    if plan.deterministic() and not plan.containsPattern(current):
        return
    for node in _nodes(plan):
        for expression in _each(node.expressions()):
            for part in _parts(expression):
                if _changes(part, current):
                    raise NotRowLevel(
                        f"uses {part.sql()}, which returns something else each time: batch, speed layer "
                        "and replay would not agree. Use columns of the record, such as its event time "
                        "or _timestamp, _partition and _offset."
                    )


def reads_rows(error: "PySparkException") -> bool:
    """Whether Spark failed because the rows were read."""
    return error.getCondition() == "USER_RAISED_EXCEPTION" and _READ in str(error)


def can_be_checked(rows: "DataFrame") -> bool:
    """Whether Spark shows its plans here; Spark Connect does not."""
    return hasattr(rows, "_jdf")


@dataclass(frozen=True)
class _LineageOf:
    """Finds out which parts of a plan are made of the source."""

    source: str
    shared: dict[int, bool] = field(default_factory=dict)
    """Common table expressions by id: whether they are."""

    def reads(self, plan: Any) -> bool:
        """Whether a plan reads the source; NotRowLevel if it does so in a way that breaks the law."""
        node = plan.nodeName()
        if node == "SubqueryAlias" and (mark := plan.alias()).startswith((self.source, TABLE_MARK)):
            return bool(mark == self.source)
        for inner in _each(plan.subqueries()):
            if self._is_within(inner) or self.reads(inner):
                raise NotRowLevel(
                    "has a subquery over the stream: it would see one piece of the log at a time. Use a "
                    "subquery over a table, or do it in a query over the view."
                )
        children = _each(plan.children())
        if not children:
            return self._leaf(node, plan)
        within = [self.reads(child) for child in children]
        if node == "View":
            _check_named(plan.desc().identifier().table())
        if node == "CTERelationDef":
            self.shared[plan.id()] = within[0]
        if node == "WithCTE":  # the definitions come first, then what uses them
            return within[-1]
        if not any(within):
            if node == "Sample":
                raise NotRowLevel(f"{_OF_SEVERAL_ROWS[node]}{_MEASURE_INSTEAD}")
            return False
        self._check(node, plan, within)
        return True

    def _is_within(self, plan: Any) -> bool:
        """Whether the source is anywhere in a plan, whatever is done with it."""
        if plan.nodeName() == "SubqueryAlias" and plan.alias() == self.source:
            return True
        return any(self._is_within(child) for child in _each(plan.children()))

    def _check(self, node: str, plan: Any, within: list[bool]) -> None:
        if node == "Join":
            _check_join(plan.joinType().toString(), *within)
        elif node == "Union":
            if not all(within):
                raise NotRowLevel(
                    "adds the rows of a table to those of the stream: they would be counted again with "
                    "each piece of the log. Join with the table instead."
                )
        elif node in _OF_SEVERAL_ROWS:
            raise NotRowLevel(f"{_OF_SEVERAL_ROWS[node]}{_MEASURE_INSTEAD}")
        elif node not in _ROW_BY_ROW or (node == "Generate" and _is_python(plan.generator())):
            name = "a table function" if node == "Generate" else node
            raise NotRowLevel(
                f"uses {name} of Spark, and what it does to rows cannot be checked. Use columns, "
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
                    "turns its rows into an RDD or a checkpoint: what is done there cannot be checked. "
                    "Use columns, or UDFs of single rows."
                )
            return False
        raise NotRowLevel(
            f"reads data besides its stream ({node}): nobody would notice that they change. Name them in "
            "`tables`, and `prepare` gets them by name."
        )


def _check_join(kind: str, left: bool, right: bool) -> None:
    if left and right:
        raise NotRowLevel(
            "joins the stream with itself: records of different pieces of the log would not meet. Use "
            "keys and measures, or join in a query over the view."
        )
    if kind not in (_KEEPS_LEFT if left else _KEEPS_RIGHT):
        raise NotRowLevel(
            f"makes a {kind} join, with the stream on the {'left' if left else 'right'}: rows of the "
            "table would be added again with each piece of the log. Use an inner join, or one that keeps "
            "the stream's rows (`left`, with the stream on the left)."
        )


def _check_named(view: str) -> None:
    """A session has each temporary view once, and the layers of a project work side by side in it."""
    if not view.startswith(_UNIQUE_VIEW):
        raise NotRowLevel(
            f"reads rows as the temporary view {view}: a batch and a micro-batch at the same time would "
            "read each other's. Give them to the statement: sparkSession.sql('… {rows} …', rows=rows)."
        )


def _is_python(generator: Any) -> bool:
    return _is_a(_PYTHON_TABLE_FUNCTION, generator)


def _changes(expression: Any, current: Any) -> bool:
    """Whether an expression itself, not what it is made of, is another one each time."""
    children = _each(expression.children())
    if not children and expression.containsPattern(current):
        return True
    if expression.deterministic() or not all(one.deterministic() for one in children):
        return False
    # collect_set and others count as such for the order of what they collect.
    return not _is_a(_AGGREGATE, expression)


def _nodes(plan: Any) -> Iterator[Any]:
    """The nodes of a plan down to its sources, those of subqueries included."""
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


def _plan(rows: "DataFrame") -> Any:
    return rows._jdf.queryExecution().analyzed()


def _is_a(kind: str, value: Any) -> bool:
    from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]
    from pyspark import SparkContext

    return bool(is_instance_of(SparkContext._gateway, value, kind))


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]
