"""`strom run` with connectors in strom.toml: files in, views, files out; and how all of it ends."""

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from strom.model.errors import UserError
from strom.pipelines.spark.jars import cache_folder, connector_jars
from strom.pipelines.spark.java import java_home

READY_S = 300
SETTINGS = """
name = "shop"
[kafka]
port = {kafka}
[serving]
port = {serving}
[connect]
port = {connect}
[connectors.clicks-in]
connector.class = "FileStreamSource"
file = "{folder}/clicks.txt"
topic = "clicks"
value.converter = "String"
[connectors.dead-out]
connector.class = "FileStreamSink"
file = "{folder}/dead.txt"
topics = ["clicks.dead"]
value.converter = "String"
"""
VIEWS = """
CREATE STREAM clicks (page STRING, ms INT);
CREATE VIEW pages AS SELECT page, count(*) AS views FROM clicks GROUP BY page;
"""


def free_ports(count):
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in listeners]
    for one in listeners:
        one.close()
    return ports


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def eventually(true):
    deadline = time.monotonic() + READY_S
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


@pytest.fixture
def shop(tmp_path):
    """A running project, with its process; what it says is in the file `words`."""
    try:
        connector_jars(java_home(cache_folder()))
    except UserError as reason:
        pytest.skip(str(reason))
    ports = dict(zip(("kafka", "serving", "connect"), free_ports(3), strict=True))
    (tmp_path / "strom.toml").write_text(SETTINGS.format(folder=tmp_path, **ports))
    (tmp_path / "views.sql").write_text(VIEWS)
    lines = [json.dumps({"page": f"/{n % 3}", "ms": n}) for n in range(30)]
    (tmp_path / "clicks.txt").write_text("\n".join([*lines, "no click", ""]))
    command = [sys.executable, "-m", "strom", "run", "-p", str(tmp_path)]
    words = tmp_path / "words"
    with words.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        try:
            assert eventually(lambda: "Ctrl-C" in words.read_text() or process.poll() is not None)
            assert process.poll() is None, words.read_text()
            yield tmp_path, ports, process
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_connectors_feed_views_and_end_with_them(strom, shop):
    folder, ports, process = shop

    def views():
        sql = urllib.parse.quote("SELECT sum(views)::INT AS n FROM pages")
        url = f"http://127.0.0.1:{ports['serving']}/query?sql={sql}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.loads(answer.read())[0]["n"]

    assert eventually(lambda: views() == 30)
    dead = folder / "dead.txt"
    assert eventually(lambda: dead.exists() and dead.read_text() == "no click\n")
    check_topic(ports["kafka"])
    again = strom("run", "-p", str(folder))
    assert again.exit_code == 1
    assert "is already running" in again.stderr
    process.send_signal(signal.SIGKILL)
    assert eventually(lambda: not any(map(listens, ports.values()))), "all end with the project"


def check_topic(port):
    """The topic is the stream's, though a connector wrote to it first."""
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
    assert len(admin.list_topics(timeout=15).topics["clicks"].partitions) == 3
    resource = ConfigResource(ConfigResource.Type.TOPIC, "clicks")
    settings = admin.describe_configs([resource])[resource].result(15)
    assert settings["retention.ms"].value == "-1"
