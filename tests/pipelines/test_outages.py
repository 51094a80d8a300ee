"""A run while Kafka is away, or a topic is not what it was: serving and other views go on."""

import errno
import os
import signal
import time

from strom.cli.run import problems_of
from strom.model.retries import RetryPolicy
from strom.pipelines import Project, Stream, View, count
from strom.pipelines.kafka_log import KafkaLog
from strom.pipelines.outages import Outage
from strom.pipelines.runner import ProjectRunner
from strom.pipelines.set_aside import reason_set_aside
from strom.pipelines.settings import ProjectSettings
from strom.testing import BrokerProcess
from tests.pipelines.running import RunningProject, eventually
from tests.pipelines.world import fresh_topic, send


def test_an_outage_is_logged_when_it_begins_and_when_it_is_over(caplog):
    outage = Outage("speed", RetryPolicy(1, 8), chance=lambda: 0.0)
    away = "No Kafka broker responds at 127.0.0.1:9."
    delays = [outage.on_failure(away) for _ in range(5)]
    assert delays == [1, 2, 4, 8, 8]
    assert outage.reason == away
    outage.on_success()
    outage.on_success()
    assert [record.getMessage() for record in caplog.records] == [
        "speed failed and is retried: No Kafka broker responds at 127.0.0.1:9.",
        "speed works again, after 5 failed attempts",
    ]
    assert outage.on_failure("again") == 1


class Running(RunningProject):
    """A project of two topics at work, in kappa mode."""

    def __init__(self, spark, servers, folder):
        self.streams = [Stream(fresh_topic(), schema="n INT", partitions=1) for _ in range(2)]
        self.views = {
            name: View(reads=stream, measures={"rows": count()}, name=name)
            for name, stream in zip(("first", "second"), self.streams, strict=True)
        }
        self.project = Project(folder, ProjectSettings(servers=servers), {}, self.views)
        self.kafka = KafkaLog(servers, timeout_s=1.0)
        for stream in self.streams:
            self.kafka.create(stream.topic, 1)
        self.runner = ProjectRunner(
            self.project, spark, self.kafka, "kappa", backoff=RetryPolicy(0.05, 0.2)
        )

    def send(self, number, rows=1):
        send(self.kafka.servers, self.streams[number], [{"n": 1}] * rows)

    def counted(self):
        return [
            self.server.query(f"SELECT rows FROM {name}").to_pylist()[0]["rows"]
            for name in self.views
        ]

    def until(self, condition):
        assert eventually(condition, self.runner)


def test_a_run_goes_on_serving_while_kafka_does_not_respond_and_then_continues(spark, tmp_path):
    with BrokerProcess() as broker, Running(spark, broker.bootstrap_servers, tmp_path) as run:
        run.send(0, 3)
        run.send(1, 4)
        run.until(lambda: run.counted() == [3, 4])
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            run.until(lambda: len(run.runner.outages) == 2)
            assert run.counted() == [3, 4]
            (line,) = problems_of(run.runner)
            assert "No Kafka broker responds at" in line
            assert "Retrying since" in line
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        run.send(0, 5)
        run.send(1, 6)
        run.until(lambda: run.counted() == [8, 10])
        run.until(lambda: not run.runner.outages)
        assert problems_of(run.runner) == []


def test_a_view_whose_topic_was_recreated_is_set_aside_and_others_go_on(
    spark, kafka_servers, tmp_path
):
    with Running(spark, kafka_servers, tmp_path) as run:
        run.send(0, 3)
        run.send(1, 4)
        run.until(lambda: run.counted() == [3, 4])
        topic = run.streams[0].topic
        run.kafka.admin.delete_topics([topic])[topic].result(10)
        deadline = time.monotonic() + 20
        while topic in run.kafka.topics() and time.monotonic() < deadline:
            time.sleep(0.05)
        run.kafka.create(topic, 1)
        run.send(0, 5)
        run.until(lambda: "first" in run.runner.set_aside())
        assert "strom replay first" in run.runner.set_aside()["first"]
        assert reason_set_aside(run.project.manifests, "first") is not None
        assert any(line.startswith("view first is set aside") for line in problems_of(run.runner))
        run.send(1, 6)
        run.until(lambda: run.counted() == [3, 10])
        assert "second" not in run.runner.set_aside()


def test_what_cannot_be_retried_still_ends_the_run(spark, kafka_servers, tmp_path, monkeypatch):
    with Running(spark, kafka_servers, tmp_path) as run:
        layer = next(iter(run.runner.layers.values()))
        gone = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")

        def fail():
            raise gone

        monkeypatch.setattr(layer, "step", fail)
        assert run.runner.wait(60)
        assert run.runner.failed is gone
