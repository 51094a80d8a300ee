"""Each row that `prepare` makes depends on one record; everything else is refused before anything runs.

The judge is the law that views stand on: what is computed of two pieces of a log is, together, what is
computed of both at once.
"""

from collections import Counter
from functools import reduce

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as sf

from strom.model.errors import UserError
from strom.pipelines import Stream, Table, View, count, measure, sum  # noqa: A004
from strom.pipelines.spark.folding import bind_with_spark
from strom.pipelines.spark.preparing import prepared

DDL = "user STRING, page STRING, ms INT, tags ARRAY<STRING>"
STREAM = Stream("clicks", schema=DDL)
PAGES = {"pages": Table("pages.csv", schema="page STRING, kind STRING")}
LOG = [
    ("a", "/cart", 5, ["x", "y"]),
    ("a", "/", 9, ["x"]),
    ("b", "/cart", 5, []),
    (None, None, 1, None),
]


@pytest.fixture
def interpreted(spark):
    """Few rows, many plans: compiling them would take most of the time."""
    settings = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name in settings:
        spark.conf.unset(name)


@pytest.fixture(autouse=True)
def folder(tmp_path):
    (tmp_path / "pages.csv").write_text("page,kind\n/cart,shop\n/cart,buy\n/help,other\n")
    return tmp_path


def make_view(prepare=None, **view):
    tables = PAGES if prepare and "pages" in prepare.__code__.co_varnames else {}
    view = {"measures": {"n": count()}, **view}
    return View(reads=STREAM, prepare=prepare, tables=tables, name="v", **view)


def in_sql(text):
    """Any statement over {rows} and {pages}."""

    def prepare(rows, pages):
        return rows.sparkSession.sql(text, rows=rows, pages=pages)

    return prepare


def lawful(spark, folder, views):
    """For which views the pieces of a log add up to the whole; one job for all."""
    pieces = {"whole": LOG, "first": LOG[:2], "second": LOG[2:]}
    rows = {piece: spark.createDataFrame(part, DDL).coalesce(1) for piece, part in pieces.items()}
    made = [
        prepared(view, rows[piece], folder)
        .select(sf.lit(name), sf.lit(piece), sf.to_json(sf.struct("*")))
        .coalesce(1)
        for name, view in views.items()
        for piece in pieces
    ]
    found: dict[tuple[str, str], Counter[str]] = {
        (name, piece): Counter() for name in views for piece in pieces
    }
    for name, piece, row in reduce(lambda one, other: one.union(other), made).collect():
        found[name, piece][row] += 1
    return {
        name
        for name in views
        if found[name, "whole"] == found[name, "first"] + found[name, "second"]
        and found[name, "whole"]
    }


def constant_table(rows):
    return rows.join(
        rows.sparkSession.createDataFrame([("/cart", 1)], "page STRING, n INT"), "page"
    )


ROW_BY_ROW = {
    "columns and filters": lambda rows: (
        rows.withColumn("x", rows.ms * 2).where("x > 2").drop("user")
    ),
    "inner join": lambda rows, pages: rows.join(pages, "page"),
    "left join": lambda rows, pages: rows.join(sf.broadcast(pages), "page", "left"),
    "semi join": lambda rows, pages: rows.join(pages, "page", "semi"),
    "anti join": lambda rows, pages: rows.join(pages, "page", "anti"),
    "cross join": lambda rows, pages: rows.crossJoin(pages.select("kind")),
    "right join, stream on the right": lambda rows, pages: pages.join(rows, "page", "right"),
    "grouped table": lambda rows, pages: rows.join(
        pages.groupBy("page").agg(sf.max("kind").alias("kind")), "page"
    ),
    "constant table": constant_table,
    "explode": lambda rows: rows.withColumn("tag", sf.explode("tags")),
    "unpivot": lambda rows: rows.unpivot(["user"], ["ms"], "name", "value"),
    "union with itself": lambda rows: rows.where("ms > 4").union(rows.where("ms < 9")),
    "order and partitions": lambda rows: rows.sort("ms").repartition(2, "page").coalesce(1),
    "a UDF": lambda rows: rows.withColumn("x", sf.udf(lambda ms: ms * 2, "int")("ms")),
    "EXISTS over a table": in_sql(
        "SELECT * FROM {rows} r WHERE EXISTS (SELECT 1 FROM {pages} p WHERE p.page = r.page)"
    ),
    "IN over a table": in_sql("SELECT * FROM {rows} WHERE page NOT IN (SELECT page FROM {pages})"),
    "scalar subquery over a table": in_sql(
        "SELECT *, (SELECT max(kind) FROM {pages}) AS k FROM {rows}"
    ),
    "WITH": in_sql("WITH c AS (SELECT * FROM {rows} WHERE ms > 1) SELECT page, ms FROM c"),
    "LATERAL over a table": in_sql(
        "SELECT r.*, k.kind FROM {rows} r, "
        "LATERAL (SELECT kind FROM {pages} p WHERE p.page = r.page) k"
    ),
}


def test_what_makes_rows_one_by_one_is_accepted_and_keeps_the_law(spark, folder, interpreted):
    views = {name: make_view(prepare) for name, prepare in ROW_BY_ROW.items()}
    for view in views.values():
        bind_with_spark(spark, view, folder)
    assert lawful(spark, folder, views) == set(views)


NOT_ROW_BY_ROW = {
    "duplicates": (lambda rows: rows.dropDuplicates(["page"]), "removes duplicates"),
    "distinct": (lambda rows: rows.select("page").distinct(), "removes duplicates"),
    "limit": (lambda rows: rows.limit(1), "limits the number of rows"),
    "groups": (lambda rows: rows.groupBy("page").agg(sf.max("ms").alias("ms")), "groups rows"),
    "neighbours": (
        lambda rows: rows.withColumn(
            "n", sf.row_number().over(Window.partitionBy("page").orderBy("ms", "user"))
        ),
        "reads neighbouring rows",
    ),
    "right join": (
        lambda rows, pages: rows.join(pages, "page", "right"),
        "makes a RightOuter join",
    ),
    "full join": (lambda rows, pages: rows.join(pages, "page", "full"), "makes a FullOuter join"),
    "left join, stream on the right": (
        lambda rows, pages: pages.join(rows, "page", "left"),
        "makes a LeftOuter join, with the stream on the right",
    ),
    "semi join, stream on the right": (
        lambda rows, pages: pages.join(rows, "page", "semi"),
        "makes a LeftSemi join",
    ),
    "self join": (
        lambda rows: rows.join(rows.select("page", sf.col("ms").alias("other")), "page"),
        "joins the stream with itself",
    ),
    "union with a table": (
        lambda rows, pages: rows.select("page").union(pages.select("page")),
        "adds the rows of a table",
    ),
    "only a table": (lambda rows, pages: pages, "does not use the rows"),
    "intersect": (
        lambda rows: rows.select("page").intersect(rows.select("page")),
        "compares all rows",
    ),
    "subquery over the stream": (
        in_sql("SELECT * FROM {rows} WHERE ms = (SELECT max(ms) FROM {rows})"),
        "has a subquery over the stream",
    ),
    "EXISTS over the stream": (
        in_sql("SELECT * FROM {rows} a WHERE EXISTS (SELECT 1 FROM {rows} b WHERE b.ms > a.ms)"),
        "has a subquery over the stream",
    ),
    "WITH, twice": (
        in_sql("WITH c AS (SELECT * FROM {rows}) SELECT a.ms FROM c a JOIN c b ON a.page = b.page"),
        "joins the stream with itself",
    ),
    "mapInPandas": (
        lambda rows: rows.mapInPandas(lambda parts: (part.head(1) for part in parts), rows.schema),
        "uses MapInPandas of Spark",
    ),
}


@pytest.mark.parametrize("name", NOT_ROW_BY_ROW)
def test_what_looks_at_several_rows_is_refused(spark, folder, name):
    prepare, message = NOT_ROW_BY_ROW[name]
    with pytest.raises(UserError, match=rf"test_row_level\.py:\d+: View v {message}"):
        bind_with_spark(spark, make_view(prepare), folder)


@pytest.mark.soak
def test_what_looks_at_several_rows_breaks_the_law(spark, folder, interpreted):
    views = {name: make_view(prepare) for name, (prepare, _) in NOT_ROW_BY_ROW.items()}
    assert lawful(spark, folder, views) == set()


def through_rdd(rows):
    return rows.rdd.map(lambda row: row).toDF(rows.schema)


def shared_view(rows):
    rows.createOrReplaceTempView("clicks")
    return rows.sparkSession.table("clicks")


def read_again(rows):
    return rows.sparkSession.createDataFrame(rows.collect(), rows.schema)


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda rows: rows.sample(0.5), "View v samples rows"),
        (lambda rows, pages: rows.join(pages.sample(0.5), "page"), "View v samples rows"),
        (lambda rows: rows.mapInArrow(lambda parts: parts, rows.schema), "View v uses MapInArrow"),
        (through_rdd, "View v turns its rows into an RDD"),
        (lambda rows: rows.localCheckpoint(eager=False), "View v turns its rows into an RDD"),
        (lambda rows: rows.join(through_rdd(rows), "page"), "View v turns its rows into an RDD"),
        (lambda rows: rows.where(sf.lit(rows.count()) > 0), "`prepare` reads its rows"),
        (read_again, "`prepare` reads its rows"),
        (shared_view, "View v reads rows as the temporary view clicks"),
        (
            lambda rows: rows.join(
                rows.sparkSession.read.json(__file__, schema="page STRING"), "page"
            ),
            "View v reads data besides its stream",
        ),
    ],
)
def test_what_cannot_be_seen_through_is_refused(spark, folder, prepare, message):
    with pytest.raises(UserError, match=rf"test_row_level\.py:\d+: {message}"):
        bind_with_spark(spark, make_view(prepare), folder)


CHANGING = [
    "rand()",
    "rand(5)",
    "randn()",
    "uuid()",
    "shuffle(tags)",
    "monotonically_increasing_id()",
    "spark_partition_id()",
    "input_file_name()",
    "current_timestamp()",
    "now()",
    "current_date()",
    "curdate()",
    "localtimestamp()",
    "unix_timestamp()",
    "current_user()",
    "current_database()",
]


@pytest.mark.parametrize("text", CHANGING)
def test_what_is_another_each_time_is_refused(spark, folder, text):
    message = r"View v uses .*, which returns another value each time"
    with pytest.raises(UserError, match=message):
        bind_with_spark(spark, make_view(lambda rows: rows.withColumn("x", sf.expr(text))), folder)


def nondeterministic(rows):
    return rows.withColumn("x", sf.udf(lambda ms: ms, "int").asNondeterministic()("ms"))


@pytest.mark.parametrize(
    "view",
    [
        {"columns": {"x": "rand()"}},
        {"where": "ms > 10 * rand()"},
        {"where": "_timestamp > now() - INTERVAL 1 DAY"},
        {"measures": {"n": sum("ms * rand()")}},
        {"measures": {"n": count("CASE WHEN hour(now()) < 12 THEN ms END")}},
        {
            "measures": {
                "n": measure(partial={"a": "sum(rand())"}, merge={"a": "sum(a)"}, finish="a")
            }
        },
        {"expect_or_drop": {"new": "_timestamp > now()"}},
        {"prepare": nondeterministic},
        {"prepare": lambda rows, pages: rows.join(pages.withColumn("x", sf.rand()), "page")},
        {"prepare": in_sql("SELECT * FROM {rows} WHERE ms > (SELECT max(rand()) FROM {pages})")},
    ],
)
def test_no_part_of_a_view_may_be_another_each_time(spark, folder, view):
    message = (
        r"_level\.py:\d+: View v(: Non-deterministic expression| uses .*another value each time)"
    )
    with pytest.raises(UserError, match=message):
        bind_with_spark(spark, make_view(**view), folder)
