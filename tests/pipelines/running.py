"""A project at work in a test: runner and server begin and end together."""

import time

from strom.pipelines import Project
from strom.pipelines.kafka_log import KafkaLog
from strom.pipelines.runner import ProjectRunner
from strom.pipelines.serving.queries import QueryEngine

WAIT_S = 90


def eventually(true, runner):
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        if runner.failed:
            raise runner.failed
        if true():
            return True
        time.sleep(0.05)
    return False


class RunningProject:
    """Begins to work when it is entered."""

    project: Project
    kafka: KafkaLog
    runner: ProjectRunner

    def __enter__(self):
        self.runner.prepare()
        self.server = QueryEngine(self.project.manifests)
        self.runner.start()
        return self

    def __exit__(self, *error):
        self.runner.stop()
        self.server.close()
        self.kafka.close()
