"""Several workers: every task has one owner at every moment, and kills lose and double nothing."""

import itertools
import json
import os
import signal
import time
from collections import defaultdict

import pytest
from confluent_kafka import Consumer

from strom.testing import LocalBroker
from tests.connect.runtime.workers import WorkerProcess, wait_until

LINES = 100_000
TASKS = 8


@pytest.fixture
def servers():
    with LocalBroker(settings={"group.min.session.timeout.ms": "1000"}) as broker:
        yield broker.bootstrap_servers


def owned_one_by_one(file, killed):
    """The judge: for every task, the lives of its runs do not overlap. Returns runs per task."""
    open_runs = {}
    lives = defaultdict(list)
    for line in file.read_text().splitlines():
        task, what, pid, at = line.split()
        place = (int(task), int(pid))
        if what == "begin":
            assert place not in open_runs, "one worker ran a task twice at once"
            open_runs[place] = [float(at), float(at)]
        elif place in open_runs:
            open_runs[place][1] = float(at)
            if what == "end":
                lives[place[0]].append(open_runs.pop(place))
    for place, life in open_runs.items():
        assert place[1] in killed, "a run without an end, though its worker was not killed"
        lives[place[0]].append([life[0], max(life[1], killed[place[1]])])
    for task, runs in lives.items():
        runs.sort()
        for (_, end), (begin, _) in itertools.pairwise(runs):
            assert end <= begin, f"task {task} had two owners"
    return {task: len(runs) for task, runs in lives.items()}


def spread(rest):
    """How many running tasks each worker has."""
    counts: defaultdict[str, int] = defaultdict(int)
    for state in rest.states("marks").values():
        if state["state"] == "RUNNING":
            counts[state["worker_id"]] += 1
    return dict(counts)


@pytest.mark.slow
def test_every_task_has_one_owner_while_workers_come_and_go(servers, tmp_path):
    file = tmp_path / "marks"
    killed = {}
    with WorkerProcess(servers) as first:
        first.rest.put(
            "marks",
            connector__class="tests.connect.runtime.marking:Marking",
            tasks__max=TASKS,
            file=file,
        )
        wait_until(lambda: spread(first.rest) == {first.id: TASKS})
        with WorkerProcess(servers) as second:
            wait_until(lambda: spread(first.rest) == {first.id: 4, second.id: 4})
            with WorkerProcess(servers) as third:
                wait_until(lambda: sorted(spread(first.rest).values()) == [2, 3, 3])
                assert second.terminate() == 0
                wait_until(lambda: spread(first.rest) == {first.id: 4, third.id: 4})
                third.kill()
                killed[third.pid] = time.monotonic()
                wait_until(lambda: spread(first.rest) == {first.id: TASKS})
        assert first.terminate() == 0
    runs = owned_one_by_one(file, killed)
    assert set(runs) == set(range(TASKS))
    assert sum(runs.values()) > TASKS, "some task must have moved"


@pytest.mark.slow
def test_a_worker_that_stood_still_lets_go_of_what_others_were_given(servers, tmp_path):
    file = tmp_path / "marks"
    with WorkerProcess(servers) as first, WorkerProcess(servers) as second:
        first.rest.put(
            "marks",
            connector__class="tests.connect.runtime.marking:Marking",
            tasks__max=4,
            file=file,
        )
        wait_until(lambda: spread(first.rest) == {first.id: 2, second.id: 2})
        os.kill(second.pid, signal.SIGSTOP)
        wait_until(lambda: spread(first.rest) == {first.id: 4})
        woken = time.monotonic()
        os.kill(second.pid, signal.SIGCONT)
        wait_until(lambda: spread(first.rest) == {first.id: 2, second.id: 2})
    late: defaultdict[str, int] = defaultdict(int)
    begun: set[str] = set()
    for line in file.read_text().splitlines():
        task, what, pid, at = line.split()
        if int(pid) == second.pid and float(at) > woken:
            begun |= {task} if what == "begin" else set()
            late[task] += what == "alive" and task not in begun
    assert max(late.values()) <= 1, "it may finish the call that it was in, and no more"


def committed(servers, topic, count):
    """The values of a topic's committed records."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "judge",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([topic])
    values: list[bytes] = []
    ended = False
    while not ended or len(values) < count:
        for message in consumer.consume(10_000, 5):
            if message.error():
                ended = True
            else:
                values.append(message.value())
    consumer.close()
    return values


@pytest.mark.slow
def test_a_worker_killed_again_and_again_loses_and_doubles_nothing(servers, tmp_path):
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("".join(f"line {number}\n" for number in range(LINES)))
    size = source.stat().st_size

    def stored():
        return target.stat().st_size if target.exists() else 0

    worker = WorkerProcess(servers).start()
    try:
        worker.rest.put(
            "read",
            connector__class="FileStreamSource",
            file=source,
            topic="lines",
            batch__size=500,
        )
        worker.rest.put("write", connector__class="FileStreamSink", file=target, topics="lines")
        for share in (0.1, 0.4, 0.7):
            wait_until(lambda share=share: stored() >= share * size)
            worker.kill()
            worker.start()
        wait_until(lambda: stored() == size)
        assert worker.terminate() == 0
    finally:
        worker.stop()
    assert target.read_bytes() == source.read_bytes()
    assert committed(servers, "lines", LINES) == source.read_bytes().splitlines()
    assert json.loads((tmp_path / "out.txt.positions").read_text())
