"""Project code on Spark's workers, which have none of its files, and without Spark at all."""

import contextlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from strom.model.errors import UserError
from strom.pipelines.layers.compiled_views import compile_view
from strom.pipelines.project import load_project
from strom.pipelines.spark.parsing import parse
from strom.pipelines.spark.reading import RAW_SCHEMA
from strom.pipelines.views import stored_definitions as stored
from tests.pipelines.oracle import START

STREAM = """
from pyspark.sql import functions as sf
from pyspark.sql.functions import pandas_udf, udf
from strom.pipelines import Stream, View

import pricing
from pricing import doubled

FACTOR = 3
clicks = Stream("clicks", schema="ms INT")


def times(factor):
    return udf(lambda ms: ms * factor, "int")


def tripled(ms):
    return ms * FACTOR


@udf("int")
def plus_one(ms):
    return tripled(ms) + 1


@udf(returnType="array<int>")
def twice(ms):
    return [ms, ms]


@pandas_udf("int")
def vectorised(ms):
    return ms + FACTOR


def prepare(rows):
    return rows.select(
        "_key", "_partition", "_offset", "_timestamp",
        udf(tripled, "int")("ms").alias("own_function"),
        udf(doubled, "int")("ms").alias("other_module"),
        udf(lambda ms: pricing.rated(ms), "int")("ms").alias("through_module"),
        udf(lambda ms: ms - FACTOR, "int")("ms").alias("lambda"),
        times(5)("ms").alias("closure"),
        plus_one("ms").alias("module_level"),
        twice("ms").alias("array"),
        vectorised("ms").alias("pandas"),
    )


rows = View(reads=clicks, prepare=prepare)
"""
PRICING = """
RATE = 7


def doubled(ms):
    return ms * 2


def rated(ms):
    return doubled(ms) + RATE
"""
EXPECTED = {
    "own_function": 30,
    "other_module": 20,
    "through_module": 27,
    "lambda": 7,
    "closure": 50,
    "module_level": 31,
    "array": [10, 10],
    "pandas": 13,
}


def write_project(folder, views=STREAM, **modules):
    folder.mkdir(exist_ok=True)
    (folder / "strom.toml").write_text('name = "shop"')
    (folder / "views.py").write_text(textwrap.dedent(views))
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def computed(spark, view, folder):
    record = ("clicks", 0, 0, START, None, b'{"ms": 10}', None)
    feed = compile_view(spark, view, folder)
    [row] = feed.states(parse(view.stream, spark.createDataFrame([record], RAW_SCHEMA))).collect()
    return {name: value for name, value in row.asDict().items() if name in EXPECTED}


def test_functions_of_the_project_run_on_workers(spark, tmp_path):
    folder = write_project(tmp_path / "shop", pricing=PRICING)
    view = load_project(folder).views["rows"]
    assert computed(spark, view, folder) == EXPECTED
    stored.store(view, tmp_path)
    loaded = stored.load(tmp_path, to_compute=True)
    assert computed(spark, loaded, folder) == EXPECTED, "bound functions can be stored"


def test_udfs_are_loaded_without_java(tmp_path):
    folder = write_project(tmp_path / "shop", pricing=PRICING)
    script = (
        "import sys; from strom.pipelines.project import load_project; "
        "print(*load_project(sys.argv[1]).views); "
        "from pyspark import SparkContext; assert SparkContext._gateway is None"
    )
    command = [sys.executable, "-c", script, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["rows"]


def test_a_column_at_the_top_of_a_file_is_refused_with_its_line(tmp_path):
    views = "from pyspark.sql import functions as sf\n\nslow = sf.col('ms') > 5\n"
    folder = write_project(tmp_path / "shop", views)
    script = (
        "import sys; from strom.pipelines.project import load_project; load_project(sys.argv[1])"
    )
    command = [sys.executable, "-c", script, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (
        "views.py:3: A column (col, lit, expr, …) can be created only while Spark runs"
        in done.stderr
    )


def test_a_project_that_is_loaded_again_imports_its_files_again(tmp_path):
    views = """
        from pricing import RATE
        from strom.pipelines import Stream, View
        rows = View(reads=Stream("clicks", schema="ms INT"), where=f"ms > {RATE}")
    """
    for rate in (70, 800):
        folder = write_project(tmp_path / "shop", views, pricing=f"RATE = {rate}\n")
        assert load_project(folder).views["rows"].where == f"ms > {rate}"


def test_errors_of_a_definition_file_stay_as_they_are(tmp_path):
    folder = write_project(tmp_path / "shop", "assert 1 > 2, 'numbers'\n")
    with pytest.raises(UserError, match=r"views\.py:1: AssertionError: numbers"):
        load_project(folder)


def test_the_standard_library_is_known_by_a_symbolic_link_too(tmp_path):
    """Homebrew and uv start Python by the link of its minor version."""
    (tmp_path / "lib").symlink_to(Path(contextlib.__file__).parent)
    script = (
        "import json, sys; from strom.pipelines.project_code import is_library; "
        "assert json.__file__.startswith(sys.argv[1]), json.__file__; "
        "assert is_library(json.__file__)"
    )
    path = os.pathsep.join([str(tmp_path / "lib"), *filter(None, sys.path)])
    subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        check=True,
        env={**os.environ, "PYTHONPATH": path},
    )
