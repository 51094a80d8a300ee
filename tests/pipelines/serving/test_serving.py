"""Queries over views: HTTP, formats, and what they may not do. No Java: the states are made by DuckDB."""

import csv
import io
import json
import subprocess
import sys
import urllib.error

import pyarrow as pa
import pytest

from strom.model.errors import UserError
from strom.pipelines import Project
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.serving.http import ServingServer, listen
from strom.pipelines.serving.queries import QueryEngine
from strom.pipelines.views.manifests import ViewSegment
from strom.pipelines.views.versions import new_version
from tests.http.pages import check_foreign_pages_are_refused
from tests.pipelines.served import ROWS, clicks, compute, get, served_manifests, states, view


@pytest.fixture
def manifests(tmp_path):
    return served_manifests(tmp_path)


@pytest.fixture
def address(manifests):
    server = QueryEngine(manifests)
    http = ServingServer(manifests, server, listen("127.0.0.1", 0))
    yield http.start()
    http.stop()
    server.close()


def test_a_view_merges_all_segments(address):
    rows = json.loads(get(address, "/views/page_minutes", order="-page"))
    assert [(row["page"], row["views"], row["visitors"]) for row in rows] == [
        ("/1", 5, 2),
        ("/0", 5, 2),
    ]
    assert rows[0]["window_start"] == "2026-01-01T00:00:00Z"


def test_parameters_choose_rows_and_columns(address):
    chosen = {
        "page": "/1",
        "views.gte": "3",
        "select": "page,views",
        "window_start": "2026-01-01T00:00:00Z",
    }
    assert json.loads(get(address, "/views/page_minutes", **chosen)) == [{"page": "/1", "views": 5}]
    assert json.loads(get(address, "/views/page_minutes", **{"views.gt": "5"})) == []


def test_csv_and_arrow(address):
    text = get(
        address, "/views/page_minutes", format="csv", select="page,top", order="page"
    ).decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert rows[0]["page"] == "/0"
    assert json.loads(rows[0]["top"]) == [{"item": "user-0", "count": 3}]
    table = pa.ipc.open_stream(get(address, "/views/page_minutes", format="arrow")).read_all()
    assert table.num_rows == 2


def test_a_page_of_another_site_can_run_no_query(address):
    query = "/query?sql=SELECT%201"
    check_foreign_pages_are_refused(address, query, query, b"{}")


def test_sql_over_http(address):
    assert json.loads(get(address, "/query", sql="SELECT sum(views) AS n FROM page_minutes")) == [
        {"n": 10}
    ]
    (listed,) = json.loads(get(address, "/views"))
    assert listed["name"] == "page_minutes"
    assert listed["position"] == [10]
    assert listed["versions"] == [{"version": 1, "state": "active"}]
    assert listed["set_aside"] is None


@pytest.mark.parametrize(
    ("path", "parameters", "reason"),
    [
        ("/views/nothing", {}, "View 'nothing' has no data yet"),
        ("/views/page_minutes", {"pag": "/"}, "Unknown column 'pag'"),
        ("/views/page_minutes", {"page.like": "/"}, "Unknown comparison 'like'"),
        ("/views/page_minutes", {"limit": "x"}, "limit must be a number"),
        ("/views/page_minutes", {"views": "many"}, "Could not convert"),
        ("/query", {"sql": "DROP TABLE x"}, "A query must be one SELECT"),
        ("/query", {"sql": "SELECT 1; SELECT 2"}, "A query must be one SELECT"),
        ("/query", {"sql": "SELECT nothing FROM page_minutes"}, "nothing"),
    ],
)
def test_an_invalid_request_fails_with_the_reason(address, path, parameters, reason):
    with pytest.raises(urllib.error.HTTPError) as caught:
        get(address, path, **parameters)
    assert caught.value.code == 400
    assert reason in json.loads(caught.value.read())["error"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM '/etc/passwd'",
        "WITH x AS (SELECT * FROM read_csv('/etc/passwd')) SELECT * FROM x",
    ],
)
def test_a_query_reads_no_other_files(manifests, sql):
    server = QueryEngine(manifests)
    with pytest.raises(UserError):
        server.query(sql)
    server.close()


def test_a_reader_sees_all_of_a_change_or_nothing(manifests):
    server = QueryEngine(manifests)
    before = manifests.read("page_minutes").active_version
    merged = ViewSegment(TopicOffsets((0,)), TopicOffsets((10,)), before.files[1:], "batch")
    manifests.change(
        "page_minutes", "clicks", lambda m: m.with_version(m.version(1).spliced(merged))
    )
    assert server.query("SELECT sum(views) AS n FROM page_minutes").to_pylist() == [{"n": 10}]
    server.close()


def test_a_name_in_capitals_reads_the_latest_states_too(manifests):
    server = QueryEngine(manifests)
    question = "SELECT count(*) AS n FROM Page_Minutes"
    assert server.query(question).to_pylist() == [{"n": 2}]
    empty = new_version(manifests, view, TopicOffsets((0,)), states([]), clicks.columns)
    manifests.change("page_minutes", "clicks", lambda before: before.switched_to(empty.number))
    assert server.query(question).to_pylist() == [{"n": 0}]
    server.close()


def test_pandas(manifests, tmp_path):
    frame = Project(tmp_path).view("page_minutes").to_pandas("page = '/1'")
    assert list(frame["views"]) == [5]


def test_strom_itself_imports_nothing_heavy():
    heavy = "{'pyspark', 'duckdb', 'deltalake', 'pandas', 'pyarrow', 'starlette', 'datasketches'}"
    code = (
        f"import sys, strom, strom.cli.program, strom.pipelines; print({heavy} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "set()", done.stdout + done.stderr


def test_a_dropped_view_is_gone_and_computed_again_from_the_beginning(tmp_path):
    manifests = served_manifests(tmp_path)
    server = QueryEngine(manifests)
    total = "SELECT sum(views) AS n FROM page_minutes"
    assert server.query(total).to_pylist() == [{"n": 10}]
    manifests.drop("page_minutes")
    with pytest.raises(UserError, match="page_minutes"):
        server.query(total)
    compute(manifests, ROWS[:3])
    assert server.query(total).to_pylist() == [{"n": 3}]
    manifests.drop("page_minutes")  # and again, without a query between
    compute(manifests, ROWS[:4])
    assert server.query(total).to_pylist() == [{"n": 4}]
    server.close()
