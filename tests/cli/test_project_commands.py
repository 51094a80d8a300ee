"""`strom init`, `plan`, `run`, `query`, `views`: a project from its first command on."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from strom.model.errors import UserError
from strom.pipelines.kafka_log import KafkaLog
from strom.pipelines.spark.jars import cache_folder, connector_jars
from strom.pipelines.spark.java import java_home
from tools.kafka import RealKafka, UnavailableError, free_port, locate
from tools.spark_cluster import SparkCluster

READY_S = 300
"""Twice what it took beside four busy processes: Spark runs at a lower priority."""


@pytest.mark.parametrize("language", ["python", "sql"])
def test_a_new_project_has_a_plan(strom, tmp_path, language):
    folder = tmp_path / "shop"
    options = ["--sql"] if language == "sql" else []
    made = strom("init", str(folder), *options)
    assert made.exit_code == 0, made.stderr
    plan = strom("plan", "-p", str(folder))
    assert plan.exit_code == 0, plan.stderr
    for name in ("page_minutes", "slow_pages", "shop"):
        assert f"view {name}" in plan.stdout
    listed = strom("views", "list", "-p", str(folder), "--json")
    assert [row["name"] for row in json.loads(listed.stdout)] == [
        "page_minutes",
        "shop",
        "slow_pages",
    ]
    picture = tmp_path / "plan.svg"
    strom("plan", "-p", str(folder), "--svg", str(picture))
    assert picture.read_text().startswith("<svg")


def test_a_project_is_not_written_over_another_one(strom, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    result = strom("init", str(tmp_path))
    assert result.exit_code == 1
    assert "is not an empty folder" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["plan"], "strom init NAME"),
        (["query", "SELECT 1"], "strom init NAME"),
        (["views", "describe", "x"], "strom init NAME"),
    ],
)
def test_without_a_project_the_error_says_how_to_create_one(strom, tmp_path, arguments, told):
    result = strom(*arguments, "-p", str(tmp_path))
    assert result.exit_code == 1
    assert told in result.stderr


def test_what_was_not_computed_is_reported(strom, tmp_path):
    strom("init", str(tmp_path / "shop"))
    for arguments in (["views", "versions", "shop"], ["views", "rollback", "shop"]):
        result = strom(*arguments, "-p", str(tmp_path / "shop"))
        assert result.exit_code == 1
        assert "has no data yet" in result.stderr
    batch = strom("batch", "nothing", "-p", str(tmp_path / "shop"))
    assert "defines a view 'nothing'" in batch.stderr


@contextmanager
def engines(kind, folder):
    """The settings for a laptop, or for Kafka and a Spark cluster: two lines differ."""
    if kind == "laptop":
        yield f"port = {free_port()}", 'master = "local[2]"'
        return
    try:
        locate()
    except UnavailableError as reason:
        pytest.skip(str(reason))
    with RealKafka() as kafka, SparkCluster(folder) as spark:
        spark.start_worker(cores=2)
        KafkaLog(kafka.bootstrap_servers).create("clicks", 3)
        try:
            yield f'servers = "{kafka.bootstrap_servers}"', f'master = "{spark.address}"'
        except AssertionError:
            print(spark.logs())
            raise


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["laptop", pytest.param("cluster", marks=pytest.mark.oracle)])
def test_the_same_project_runs_on_a_laptop_and_on_a_cluster(strom, tmp_path, kind):
    try:
        connector_jars(java_home(cache_folder()))
    except UserError as reason:
        pytest.skip(str(reason))
    folder = tmp_path / "shop"
    strom("init", str(folder))
    settings = folder / "strom.toml"
    port = free_port()
    with engines(kind, tmp_path / "spark") as (kafka_line, spark_line):
        text = (
            settings.read_text()
            .replace("port = 9092", kafka_line)
            .replace("port = 8088", f"port = {port}")
        )
        settings.write_text(text.replace('master = "local[2]"', spark_line))
        with running(folder) as servers:
            send(servers, 500)
            assert eventually(lambda: asked(port, "SELECT clicks FROM shop") == [{"clicks": 500}])
            seen = asked(port, "SELECT sum(views) AS views FROM page_minutes")
            assert seen == [{"views": 500}]
    answer = strom(
        "query", "SELECT clicks, visitors FROM shop", "-p", str(folder), "--format", "json"
    )
    assert json.loads(answer.stdout) == [{"clicks": 500, "visitors": 50}]
    if kind == "laptop":
        check_change_and_rollback(strom, folder)


def check_change_and_rollback(strom, folder):
    """A changed view is refused, replayed as a new version, and rolled back."""
    definitions = folder / "views.py"
    definitions.write_text(definitions.read_text().replace('"clicks": count()', '"n": count()'))
    refused = strom("run", "-p", str(folder))
    assert refused.exit_code == 1
    assert "views.py:" in refused.stderr
    assert "strom replay shop" in refused.stderr
    # Spark ends with a command, so this one has a process of its own.
    command = [sys.executable, "-m", "strom", "replay", "shop", "-p", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=READY_S)
    assert done.returncode == 0, done.stderr
    asked_for = ["-p", str(folder), "--format", "json"]
    assert json.loads(strom("query", "SELECT n FROM shop", *asked_for).stdout) == [{"n": 500}]
    assert strom("views", "rollback", "shop", "-p", str(folder)).exit_code == 0
    assert json.loads(strom("query", "SELECT clicks FROM shop", *asked_for).stdout) == [
        {"clicks": 500}
    ]
    listed = json.loads(strom("views", "versions", "shop", "-p", str(folder), "--json").stdout)
    assert [(row["version"], row["state"]) for row in listed] == [(1, "active"), (2, "ready")]
    missing = strom("views", "drop", "shop", "--version", "9", "--yes", "-p", str(folder))
    assert "has no version 9" in missing.stderr
    assert (
        strom("views", "drop", "shop", "--version", "2", "--yes", "-p", str(folder)).exit_code == 0
    )
    assert (
        strom("views", "drop", "shop", "--version", "1", "--yes", "-p", str(folder)).exit_code == 1
    )


@contextmanager
def running(folder):
    """`strom run`, until the end of the block, and then it ends cleanly; gives Kafka's address."""
    command = [sys.executable, "-m", "strom", "run", "-p", str(folder)]
    with (folder / "words").open("w+b") as words:
        process = subprocess.Popen(command, stdout=words, stderr=words, start_new_session=True)
        try:
            path = folder / "words"
            begun = eventually(lambda: "Ctrl-C" in path.read_text() or process.poll() is not None)
            assert begun, path.read_text()
            assert process.poll() is None, path.read_text()
            line = next(line for line in path.read_text().splitlines() if "Kafka clients" in line)
            yield line.split()[-1]
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does it: to everyone
            assert process.wait(60) == 0, path.read_text()
        finally:
            process.kill()
            process.wait()


def send(servers, count):
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    for number in range(count):
        click = {"user": f"u{number % 50}", "page": "/", "ms": number, "at": "2026-01-01T00:00:00Z"}
        producer.produce("clicks", json.dumps(click))
    assert producer.flush(20) == 0


def asked(port, sql):
    url = f"http://127.0.0.1:{port}/query?sql={urllib.parse.quote(sql)}"
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.loads(answer.read())


def eventually(true):
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.2)
    return False
