"""Projects: settings, files, plans, and definitions that have changed. No Java."""

import textwrap

import pytest

from strom.model.errors import UserError
from strom.pipelines.plan import make_plan, to_mermaid, to_svg, to_text
from strom.pipelines.project import load_project
from strom.pipelines.views.fingerprints import fingerprint

VIEWS = """
from strom.pipelines import Stream, View, count

LIMIT = 5
clicks = Stream("clicks", schema="page STRING, ms INT, at TIMESTAMP", time="at")


def slow(rows):
    return rows.where(rows.ms > LIMIT)


pages = View(reads=clicks, prepare=slow, keys=["page"], measures={"n": count()})
"""
SQL = """
CREATE STREAM clicks (page STRING, ms INT, at TIMESTAMP) WITH (topic = 'clicks', time = 'at');
-- Counts; and more.
CREATE VIEW minutes AS
SELECT window('1 minute'), lower(page) AS page, count(*) AS n, avg(ms) AS mean_ms, top_k(page, 3) AS top,
       count(DISTINCT page) AS pages
FROM clicks WHERE ms > 5 GROUP BY window('1 minute'), lower(page);
CREATE VIEW slow AS SELECT page, ms * 2 AS twice FROM clicks WHERE ms > 100;
CREATE VIEW hours AS SELECT window('1 hour'), rollup(n) AS n FROM minutes GROUP BY window('1 hour');
"""


@pytest.fixture
def project(tmp_path):
    """Write files and load them."""

    def load(settings='name = "shop"', **files):
        (tmp_path / "strom.toml").write_text(settings)
        for name, text in files.items():
            path = tmp_path / name.replace("_py", ".py").replace("_sql", ".sql")
            path.write_text(textwrap.dedent(text))
        return load_project(tmp_path)

    return load


def test_views_are_named_by_their_variables(project):
    loaded = project(views_py=VIEWS)
    assert list(loaded.views) == ["pages"]
    assert loaded.views["pages"].name == "pages"
    assert loaded.servers == "127.0.0.1:9092"


def test_sql_views_may_stand_in_any_order(project):
    stream, *views = SQL.split(";\n")[:-1]
    turned = ";\n".join([*reversed(views), stream])
    loaded = project(views_sql=turned)
    assert loaded.views == project(views_sql=SQL).views


def test_a_circle_of_views_is_reported(project):
    stream = SQL.split(";")[0]
    circle = """;
    CREATE VIEW a AS SELECT page FROM b;
    CREATE VIEW b AS SELECT page FROM c;
    CREATE VIEW c AS SELECT page FROM b"""
    with pytest.raises(UserError, match=r"views\.sql:\d+: View b is circular: b → c → b\."):
        project(views_sql=stream + circle)


def test_a_view_with_expectations_has_its_quality_beside_it(project):
    expecting = VIEWS.replace("keys=", 'expect={"quick": "ms < 9"}, keys=')
    loaded = project(views_py=expecting)
    assert list(loaded.views) == ["pages", "pages_quality"]
    assert list(loaded.views["pages_quality"].measures) == ["rows", "quick"]


def test_sql_defines_the_same(project):
    loaded = project(views_sql=SQL)
    minutes, slow = loaded.views["minutes"], loaded.views["slow"]
    assert minutes.key_names == ["window_start", "page"]
    assert {name: one.kind for name, one in minutes.measures.items()} == {
        "n": "count",
        "mean_ms": "mean",
        "top": "top_k",
        "pages": "distinct",
    }
    assert minutes.reads.where == "ms > 5", "WHERE sees what was read, not what is selected"
    assert minutes.columns == {"page_as_read": "page", "page": "LOWER(page)"}
    assert minutes.measures["top"].column == "page_as_read", "and so do measures"
    assert slow.appends
    assert slow.columns == {"twice": "ms * 2"}
    assert slow.select == ("page", "twice")
    assert loaded.views["hours"].rolls_up is minutes
    assert loaded.views["hours"].measures["n"].describe() == "rollup(n)"


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT page FROM cliks", "Unknown stream or view 'cliks'"),
        ("SELECT page, count(*) AS n FROM clicks", "neither a measure nor in GROUP BY"),
        ("SELECT count(*) AS n FROM clicks GROUP BY page", "must be selected exactly once"),
        ("SELECT count(*) FROM clicks", "needs a name"),
        ("SELECT count(*) AS n FROM clicks HAVING n > 1", "not supported in a view"),
        ("SELECT FROM WHERE", "views.sql:3"),
        ("SELECT sum(page) AS s FROM clicks", "page is string"),
    ],
)
def test_wrong_sql_is_refused_with_its_line(project, sql, told):
    stream = SQL.split(";")[0] + ";\n"
    with pytest.raises(UserError) as caught:
        project(views_sql=f"{stream}CREATE VIEW v AS {sql};")
    assert told in str(caught.value)
    assert "views.sql:3" in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("[kafka]\nserver = 'x'", "Did you mean kafka.servers?"),
        ("[kafka]\nport = 'x'", "strom.toml:2: kafka.port must be an integer"),
        (
            "[kafka]\n# a comment\nport = 70000",
            "strom.toml:3: Invalid value 70000 for .*kafka.port",
        ),
        ("[speed]\nmax_records = 0", "speed.max_records: it must be at least 1"),
        ("[batch]\nevery = 'often'", "strom.toml:2: .*not a duration"),
        ("[batch]\nevery = 5", "batch.every must be a string like '10 seconds'"),
        ("[project]\nfiles = [1]", "strom.toml:2: project.files must be an array of strings"),
        ("connectors = 1", "strom.toml:1: connectors must be a table"),
        ("[connectors]\nlines = 1", r"must be tables: \[connectors.NAME\]"),
        ("name = ", "strom.toml"),
    ],
)
def test_wrong_settings_are_refused(project, settings, told):
    with pytest.raises(UserError, match=told.replace("?", r"\?")):
        project(settings, views_py=VIEWS)


def test_an_error_in_a_file_is_reported_with_its_line(project):
    with pytest.raises(UserError, match=r"views\.py:2: NameError"):
        project(views_py="x = 1\nviews = nothing\n")
    with pytest.raises(UserError, match=r"views\.py:1: "):
        project(views_py="def (:\n")


def test_a_folder_without_views_is_refused(project):
    with pytest.raises(UserError, match="defines a view"):
        project(views_py="x = 1\n")


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("LIMIT = 5", "LIMIT = 6", False),
        ("rows.ms > LIMIT", "rows.ms >= LIMIT", False),
        ('"n": count()', '"m": count()', False),
        ("ms INT,", "ms BIGINT,", False),
        ("rows.where(rows.ms > LIMIT)", "rows.where(  rows.ms > LIMIT )  # slow", True),
    ],
)
def test_a_changed_definition_is_recognised(project, before, after, same):
    first = fingerprint(project(views_py=VIEWS).views["pages"])
    assert before in VIEWS
    second = fingerprint(project(views_py=VIEWS.replace(before, after)).views["pages"])
    assert (first == second) is same


def test_a_plan_shows_what_runs_where(project):
    loaded = project('[kafka]\nservers = "k:1"\n[spark]\nmaster = "spark://s:2"', views_sql=SQL)
    made = make_plan(loaded)
    text = to_text(made)
    for part in ("k:1", "spark://s:2", "view minutes", "master dataset of clicks", "clicks.dead"):
        assert part in text
    assert "master" not in to_text(make_plan(loaded, "kappa")).replace("spark://", "")
    assert to_mermaid(made).startswith("flowchart LR")
    assert to_svg(made).count("<rect") == len(made.nodes)


STREAM = "s = Stream('clicks', schema='ms INT')\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            STREAM + "v = View(reads=s, measures={'n': count()}, name='../v')",
            "not a valid name of a view",
        ),
        (
            STREAM + "clicks_dead_letters = View(reads=s, measures={'n': count()})",
            "view clicks_dead_letters have the same name",
        ),
        (
            STREAM + "v = View(reads=s)\nV = View(reads=s, measures={'n': count()})",
            "have the same name V",
        ),
        (
            "a = View(reads=Stream('a.b', schema='x INT'))\n"
            "b = View(reads=Stream('a-b', schema='x INT'))",
            "The dead letters of a-b and .* have the same name a_b_dead_letters",
        ),
        ("s = Stream('c', schema='x INT', dead_letters='c')", "must not be the topic itself"),
        ("s = Stream('c/d', schema='x INT')", "Invalid topic name 'c/d'"),
        ("s = Stream('c', schema='x INT', partitions=0)", "at least one partition"),
    ],
)
def test_names_that_cannot_be_told_apart_are_refused(project, text, told):
    with pytest.raises(UserError, match=r"views\.py:\d+: .*" + told):
        project(views_py="from strom.pipelines import *\n" + text)


def test_texts_in_sql_may_hold_what_ends_statements_and_begins_comments(project):
    sql = """
    /* Not this: CREATE VIEW no; */
    CREATE STREAM clicks (page STRING); -- it's a stream
    CREATE VIEW odd AS SELECT page, count(*) AS n FROM clicks
    WHERE page LIKE '%;%' OR page = '-- it''s' GROUP BY page;
    """
    made = project(views_sql=sql)
    assert list(made.views) == ["odd"]
    assert "'%;%'" in made.views["odd"].where
    with pytest.raises(UserError, match=r"views\.sql:6: .*is not closed"):
        project(views_sql=sql + "CREATE VIEW w AS SELECT 'a FROM clicks")


def test_a_plan_shows_connectors(project):
    settings = """
    [connectors.in]
    connector.class = "FileStreamSource"
    topic = "clicks"
    [connectors.out]
    connector.class = "FileStreamSink"
    topics = ["clicks.dead", "other"]
    """
    sql = "CREATE STREAM clicks (x INT); CREATE VIEW v AS SELECT count(*) AS n FROM clicks"
    plan = make_plan(project(textwrap.dedent(settings), views_sql=sql))
    text = to_text(plan)
    assert "topic clicks\n    json, time: _timestamp\n    ← connector in: records" in text
    assert "connector out\n    FileStreamSink\n    ← topic clicks.dead: records" in text
    assert "connector in" in to_svg(plan)
