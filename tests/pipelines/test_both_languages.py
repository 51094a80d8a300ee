"""The project of `strom init`, in Python and in SQL, gives the same answers."""

import json

import pytest

from strom.cli.project_files import DEFINITIONS, SQL_DEFINITIONS, settings_text
from strom.pipelines import load_project
from strom.pipelines.layers.compiled_views import compile_view
from strom.pipelines.serving.connections import connect
from strom.pipelines.serving.statements import finish_statement
from strom.pipelines.spark.parsing import parse
from strom.pipelines.spark.reading import RAW_SCHEMA
from tests.pipelines.oracle import START
from tests.pipelines.shop import clicks
from tests.pipelines.world import as_text


def answers(spark, folder, file, text):
    """What all views of a project say about the same clicks."""
    folder.mkdir()
    (folder / "strom.toml").write_text(settings_text("shop"))
    (folder / file).write_text(text)
    rows = [{**row, "ms": (row["ms"] or 0) * 20} for row in clicks(60)]
    values = [json.dumps(row, default=as_text).encode() for row in rows]
    records = [("clicks", 0, n, START, None, value, None) for n, value in enumerate(values)]
    raw = spark.createDataFrame(records, RAW_SCHEMA)
    connection = connect()
    found = {}
    for name, view in load_project(folder).views.items():
        feed = compile_view(spark, view, folder)
        connection.register("given", feed.states(parse(view.stream, raw)).toArrow())
        statement = f"SELECT * FROM ({finish_statement(feed.fold, 'given')}) ORDER BY ALL"
        found[name] = connection.sql(statement).to_arrow_table().to_pylist()
    connection.close()
    return found


def test_python_and_sql_agree(spark, tmp_path):
    python = answers(spark, tmp_path / "python", "views.py", DEFINITIONS)
    sql = answers(spark, tmp_path / "sql", "views.sql", SQL_DEFINITIONS)
    assert python == sql
    assert python["shop"][0]["clicks"] == 60
    assert len(python["page_minutes"]) > 5
    assert python["slow_pages"][0]["p99_ms"] == pytest.approx(980, rel=0.02)
