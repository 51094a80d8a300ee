"""SQL means what it says, or is refused: DuckDB is the judge of what is accepted."""

import json

import pytest

from strom.model.errors import UserError
from strom.pipelines.definitions.sql_files import read_sql
from strom.pipelines.layers.compiled_views import compile_view
from strom.pipelines.serving.connections import connect
from strom.pipelines.serving.statements import finish_statement
from strom.pipelines.spark.parsing import parse
from strom.pipelines.spark.reading import RAW_SCHEMA
from tests.pipelines.oracle import START
from tests.pipelines.shop import clicks
from tests.pipelines.world import as_text

STREAM = (
    "CREATE STREAM clicks (user STRING, page STRING, ms INT, at TIMESTAMP) WITH (time = 'at');\n"
)
ROWS = [
    {**row, "page": f"{row['page']}{'A' if number % 2 else 'a'}"}
    for number, row in enumerate(clicks(40))
]


def views_of(select, stream=STREAM):
    return read_sql([("views.sql", f"{stream}CREATE VIEW v AS {select};")], {}, {})[1]


HONOURED = {
    "SELECT page, ms * 2 AS twice FROM clicks WHERE ms > 30": None,
    "SELECT ms * 2 AS ms, ms + 1 AS next FROM clicks WHERE ms > 30": None,
    "SELECT ms + 1 AS next, next * 2 AS twice FROM clicks": None,
    "SELECT c.page, c.ms AS ms FROM clicks AS c WHERE c.ms < 5": None,
    "SELECT `page` AS p FROM clicks WHERE page LIKE '%window (%' OR ms = 1": (
        "SELECT page AS p FROM clicks WHERE page LIKE '%window (%' OR ms = 1"
    ),
    "SELECT lower(page) AS page, count(*) AS n, count(DISTINCT page) AS pages "
    "FROM clicks GROUP BY lower(page)": (
        "SELECT lower(page) AS p, count(*), count(DISTINCT page) FROM clicks GROUP BY lower(page)"
    ),
    "SELECT page AS p, last(user, ms) AS u FROM clicks WHERE ms IS NOT NULL GROUP BY page": (
        'SELECT page AS p, arg_max("user", (ms, nr)) AS u FROM clicks '
        'WHERE ms IS NOT NULL AND "user" IS NOT NULL GROUP BY page'
    ),
    "SELECT sum(ms) AS s, avg(ms) AS m, min(ms) AS least, max(ms) AS most FROM clicks": None,
    "SELECT count(CASE WHEN ms > 9 THEN 1 END) AS slow, count(1) AS n FROM clicks": None,
}


@pytest.fixture(scope="module")
def judge():
    import pyarrow as pa

    connection = connect()
    times = [{**row, "nr": number} for number, row in enumerate(ROWS)]
    connection.register("clicks", pa.Table.from_pylist(times))
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def parsed(spark):
    values = [json.dumps(row, default=as_text).encode() for row in ROWS]
    records = [("clicks", 0, n, START, None, value, None) for n, value in enumerate(values)]
    stream = views_of("SELECT page FROM clicks")["v"].stream
    return parse(stream, spark.createDataFrame(records, RAW_SCHEMA)).cache()


def plain(rows):
    def shown(value):
        return float(value) if isinstance(value, int | float) else str(value)

    return sorted([[shown(one) for one in row] for row in rows], key=repr)


@pytest.mark.parametrize("select", HONOURED)
def test_what_is_accepted_means_what_duckdb_understands(spark, parsed, judge, tmp_path, select):
    view = views_of(select)["v"]
    feed = compile_view(spark, view, tmp_path)
    states = feed.states(parsed)
    judge.register("given", states.toArrow())
    names = [*view.select] if view.appends else [*view.key_names, *view.measures]
    listed = ", ".join(f'"{name}"' for name in names)
    made = judge.sql(f"SELECT {listed} FROM ({finish_statement(feed.fold, 'given')})").fetchall()
    expected = judge.sql(HONOURED[select] or select.replace("`", '"')).fetchall()
    assert plain(made) == plain(expected)
    assert expected


REFUSED = {
    "SELECT count(DISTINCT page, user) AS n FROM clicks": "has several columns",
    "SELECT count(page, user) AS n FROM clicks": "count takes one argument",
    "SELECT last(user, true) AS n FROM clicks": "the column to order by",
    "SELECT last(user) IGNORE NULLS AS n FROM clicks": "a measure has no FILTER, OVER or NULLS",
    "SELECT last(user, ms, page) AS n FROM clicks": r"the arguments must be \(column, by\)",
    "SELECT page FROM clicks TABLESAMPLE (10 PERCENT)": "not supported in a view",
    "SELECT page FROM clicks QUALIFY ms > 1": "QUALIFY is not supported",
    "SELECT page, count(*) AS n FROM clicks GROUP BY ROLLUP(page)": "ROLLUP, CUBE or GROUPING SETS",
    "SELECT page, count(*) AS n FROM clicks GROUP BY page WITH ROLLUP": "ROLLUP is not supported",
    "SELECT page, count(*) AS n FROM clicks GROUP BY CUBE(page)": "ROLLUP, CUBE or GROUPING SETS",
    "SELECT page, count(*) AS n FROM clicks GROUP BY GROUPING SETS ((page))": "GROUPING SETS",
    "SELECT page, count(*) AS n FROM clicks GROUP BY ALL": "ALL is not supported",
    "SELECT count(*) FILTER (WHERE ms > 1) AS n FROM clicks": "a measure has no FILTER",
    "SELECT count(*) OVER (PARTITION BY page) AS n FROM clicks": "a measure has no FILTER, OVER",
    "SELECT sum(DISTINCT ms) AS n FROM clicks": "DISTINCT is supported for count only",
    "SELECT sum(ms) + 1 AS n FROM clicks": "is inside an expression",
    "SELECT stddev(ms) AS n FROM clicks": "is not a measure",
    "SELECT page FROM db.clicks": "not supported in a view",
    "SELECT page FROM clicks c(page, b)": "not supported in a view",
    "SELECT page FROM clicks VERSION AS OF 1": "not supported in a view",
    "SELECT page FROM clicks PIVOT (sum(ms) FOR page IN (1))": "not supported in a view",
    "SELECT page FROM (SELECT * FROM clicks)": "one stream or view by its name",
    "SELECT page FROM clicks, clicks AS d": "JOIN is not supported",
    "SELECT page FROM clicks LATERAL VIEW explode(array(1)) AS u": "LATERAL is not supported",
    "SELECT * EXCEPT (page) FROM clicks": "list the columns",
    "SELECT DISTINCT page FROM clicks": "DISTINCT is not supported",
    "SELECT DISTINCT ON (page) page FROM clicks": "DISTINCT is not supported",
    "SELECT page FROM clicks LIMIT 5": "LIMIT is not supported",
    "SELECT page FROM clicks ORDER BY page": "ORDER is not supported",
    "SELECT page FROM clicks SORT BY page": "SORT is not supported",
    "SELECT page FROM clicks UNION ALL SELECT page FROM clicks": "A view must be a SELECT",
    "SELECT page INTO t FROM clicks": "INTO is not supported",
    "SELECT page FROM clicks WHERE page IN (SELECT page FROM clicks)": "is a subquery",
    "SELECT/**/page FROM clicks WHERE ms > max(ms)": "is inside an expression",
    "SELECT page AS a, ms AS a FROM clicks": "a twice",
    "SELECT count(*) AS n, sum(ms) AS n FROM clicks": "n twice",
    "SELECT page AS a, page AS b, count(*) AS n FROM clicks GROUP BY page": "selected twice",
    "SELECT page AS user, user AS page FROM clicks": "refer to each other's old values",
    "SELECT date_trunc('day', at) AS at, count(*) AS n FROM clicks GROUP BY 1": "selected exactly once",
    "SELECT date_trunc('day', at) AS at, count(*) AS n FROM clicks GROUP BY date_trunc('day', at)": (
        "the time column of the windows"
    ),
    "SELECT quantile(ms, 0.5 + 0.1) AS q FROM clicks": "must be a plain number",
    "SELECT percentile_approx(ms, 0.5, 100) AS q FROM clicks": r"the arguments must be \(column, q\)",
    "SELECT percentile_approx(ms, array(0.5)) AS q FROM clicks": "must be a plain number",
    "SELECT window('1 hour', '5 minutes', 'x'), count(*) AS n FROM clicks "
    "GROUP BY window('1 hour', '5 minutes', 'x')": "a window has a length",
}


@pytest.mark.parametrize("select", REFUSED)
def test_what_a_view_cannot_mean_is_refused_with_its_line(select):
    with pytest.raises(UserError, match=rf"views\.sql:2: .*{REFUSED[select]}"):
        views_of(select)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("time = at", r"WITH \(time = at\) is invalid"),
        ("time = 'at', topic", r"WITH \(topic\) is invalid"),
        ("time = 'at' format = 'json'", r"is invalid"),
        ("tiem = 'at'", "Unknown option tiem"),
        ("time = 'at', time = 'at'", "time is given twice"),
        ("partitions = 'x'", "partitions must be a number"),
        ("topic = 5", "topic must be a string"),
        ("schema = 'a INT'", "columns are given twice"),
    ],
)
def test_options_that_are_not_understood_are_refused(options, message):
    with pytest.raises(UserError, match=rf"views\.sql:1: .*{message}"):
        views_of(
            "SELECT page FROM clicks",
            f"CREATE STREAM clicks (page STRING, at TIMESTAMP) WITH ({options});\n",
        )


def test_a_name_that_may_be_of_two_columns_is_refused():
    first = "SELECT lower(page) AS page, ms * 2 AS ms FROM clicks;\nCREATE VIEW w AS "
    views = views_of(f"{first}SELECT page AS p, upper(page) AS page FROM v")
    assert list(views["w"].columns) == ["p", "page"], "what is made later was read before"
    with pytest.raises(UserError, match=r"views\.sql:3: p reads page, which is ambiguous"):
        views_of(f"{first}SELECT upper(page) AS page, page AS p FROM v")


def test_two_streams_of_one_name_are_refused():
    with pytest.raises(UserError, match=r"views\.sql:2: The stream 'clicks' is defined twice"):
        views_of("SELECT page FROM clicks", STREAM + STREAM)


def test_units_of_time_are_no_columns():
    view = views_of("SELECT date_trunc('hour', at) AS h, dateadd(day, 1, at) AS d FROM clicks")["v"]
    assert list(view.columns) == ["h", "d"]


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("at + INTERVAL '1 hour'", "at + INTERVAL '1' HOUR"),
        ("regexp_extract(page, '^/([a-z]+)', 1)", "REGEXP_EXTRACT(page, '^/([a-z]+)')"),
        ("regexp_extract(page, '^/([a-z]+)', 2)", "REGEXP_EXTRACT(page, '^/([a-z]+)', 2)"),
        ("from_unixtime(ms, 'yyyy-MM-dd HH:mm:ss')", "FROM_UNIXTIME(ms)"),
        ("to_date(page, 'yyyy-MM-dd')", "TO_DATE(page, 'yyyy-MM-dd')"),
        ("to_date(page, 'dd.MM.yyyy')", "TO_DATE(page, 'dd.MM.yyyy')"),
        ("to_date(page)", "TO_DATE(page)"),
        ("ms * .5", "ms * 0.5"),
        ("at AT TIME ZONE 'Europe/Berlin'", "FROM_UTC_TIMESTAMP(at, 'Europe/Berlin')"),
    ],
)
def test_what_is_written_differently_is_not_taken_for_dropped(written, kept):
    view = views_of(f"SELECT {written} AS x FROM clicks")["v"]
    assert view.columns == {"x": kept}
