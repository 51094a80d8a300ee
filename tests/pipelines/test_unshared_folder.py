"""A Spark cluster whose worker does not see the data folder: nothing is published, nothing is lost."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from strom.model.errors import UserError
from strom.pipelines.data_folder import TOKEN_FILE, read_or_create_token
from strom.pipelines.spark.jars import cache_folder, connector_jars
from strom.pipelines.spark.java import java_home
from tests.pipelines.cluster_driver import pages
from tests.pipelines.world import fresh_topic, send
from tools.spark_cluster import SparkCluster

HIDDEN = (
    "for disk in $(grep -o ' /[^ ]*/mounted ' /proc/self/mounts); do umount -l $disk; done; "
    'mount -t tmpfs none "$0" && exec "$@"'
)
"""Run a command that sees an empty folder in the place of the one given, and no disk of a test that cuts
its power: such a disk must be gone before it is mounted again."""
WAIT_S = 120


class Driver:
    """A project's process, which executes one command after another."""

    def __init__(self, folder, servers, topic, master, started):
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.pipelines.cluster_driver",
                folder,
                servers,
                topic,
                master,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.callback(stop, self._process)

    def __call__(self, command):
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the driver has ended"
        return json.loads(line)

    def refused(self, command):
        """The message with which a command is refused."""
        response = self(command)
        assert "refused" in response, (command, response)
        return response["refused"]


def stop(process):
    process.terminate()
    process.wait(WAIT_S)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def kill_with_executors(worker):
    """Kill a worker with its executors, as a machine that loses its power does.

    A worker that is asked to stop ends its executors first, which Spark's master may replace by a new
    one, on this worker: that one sees the folder, and may outlive the worker for a while.
    """
    os.kill(worker.pid, signal.SIGSTOP)  # it starts no other executor from here on
    children = Path(f"/proc/{worker.pid}/task").glob("*/children")
    executors = [int(pid) for path in children for pid in path.read_text().split()]
    assert executors
    for pid in (worker.pid, *executors):
        os.kill(pid, signal.SIGKILL)
    worker.wait(WAIT_S)
    wait_for(lambda: not any(runs(Path("/proc", str(pid))) for pid in executors))


def runs(process):
    """Whether a process of /proc runs; one that nobody has waited for does not."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for(found):
    deadline = time.monotonic() + WAIT_S
    while not (value := found()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return value


@contextmanager
def cluster(folder):
    try:
        connector_jars(java_home(cache_folder()))
    except UserError as reason:
        pytest.skip(str(reason))
    with SparkCluster(folder) as spark, ExitStack() as started:
        yield spark, started


def can_hide_folders():
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True)
    return tried.returncode == 0


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.skipif(not can_hide_folders(), reason="mount namespaces need root, and unshare")
def test_a_worker_without_the_data_folder_changes_nothing(kafka_servers, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    topic = fresh_topic("pages")
    stream, _ = pages(topic)
    with cluster(tmp_path / "spark") as (spark, started):
        sharing = spark.start_worker()
        ask = Driver(str(data), kafka_servers, topic, spark.address, started)
        ask("speed")  # the topic is there
        send(kafka_servers, stream, [b"/%d" % (number % 7) for number in range(1000)])
        assert [ask(work)["done"] for work in ("speed", "archive", "batch")] == [
            1000,
            1000,
            [1000, 1000],
        ]
        before = ask("state")
        assert (before["done"]["counted"], before["done"]["lines"]) == (1000, 1000)

        # An executor that joins later, on a machine without the folder.
        kill_with_executors(sharing)
        without = spark.start_worker(before=["unshare", "-m", "sh", "-c", HIDDEN, str(data)])
        send(kafka_servers, stream, [b"/new"] * 10)
        refused = {work: ask.refused(work) for work in ("archive", "batch", "speed")}
        for work in ("archive", "speed"):
            assert f"does not see the data folder {data} of this project" in refused[work]
            assert "The executor on " in refused[work]
            assert "/127.0." in refused[work] or socket.gethostname() in refused[work]
        assert "do not share the data folder" in refused["batch"]

        # It has a folder at that path, of another project.
        elsewhere = Path(f"/proc/{without.pid}/root{data}")
        read_or_create_token(elsewhere)
        assert f"{TOKEN_FILE} is missing there, or belongs to another project" in ask.refused(
            "archive"
        )

        # An old copy of the folder has the token; but what is written there, is not seen here.
        shutil.copy(data / TOKEN_FILE, elsewhere / TOKEN_FILE)
        refused = ask.refused("archive")
        assert "Spark's tasks wrote 10 rows" in refused
        assert "this process sees 0 rows in 0 files" in refused
        after = ask("state")
        assert after["done"]["archived"] == before["done"]["archived"]
        assert after["done"]["lines"] == 1000
        assert not list(data.glob("master/*/records-*/_temporary"))
