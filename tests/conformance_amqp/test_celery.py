"""Celery with kombu runs tasks on it."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys, threading, warnings
warnings.simplefilter("ignore")
from celery import Celery
from celery.contrib.testing.worker import start_worker

app = Celery("work", broker=sys.argv[1], backend="rpc://")
app.conf.update(task_default_queue=sys.argv[2], broker_connection_retry_on_startup=True,
                worker_hijack_root_logger=False, result_expires=60)

@app.task
def add(one, other):
    return one + other

@app.task(bind=True, max_retries=2)
def twice(self, text):
    if self.request.retries < 2:
        raise self.retry(countdown=0.1)
    return text * 2

with start_worker(app, perform_ping_check=False, pool="solo"):
    print(add.delay(2, 3).get(timeout=40), twice.delay("ab").get(timeout=40))
    print([one.get(timeout=40) for one in [add.delay(n, n) for n in range(10)]])
"""


@pytest.mark.slow
def test_celery_runs_tasks_retries_them_and_gets_results(server, name):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, server.url, name()],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.stdout.splitlines() == ["5 abab", str([2 * number for number in range(10)])], (
        done.stderr[-2000:]
    )
