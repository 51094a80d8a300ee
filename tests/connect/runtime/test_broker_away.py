"""The broker dies and comes back under a running worker: tasks wait, go on, and nothing is doubled."""

import pytest

from strom.connect.runtime.rest.server import RunningWorker
from strom.testing import BrokerProcess
from tests.connect.runtime.workers import STRING, Rest, wait_until

LINES = 20_000


@pytest.mark.slow
def test_a_broker_that_is_killed_and_started_again_is_waited_for(tmp_path):
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("".join(f"line {number}\n" for number in range(LINES)))
    broker = BrokerProcess(data=str(tmp_path / "data")).start()
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "rest.port": "0",
        "key.converter": STRING,
        "value.converter": STRING,
        "offset.flush.interval.ms": "200",
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
        "session.timeout.ms": "6000",
    }
    try:
        with RunningWorker(settings) as worker:
            rest = Rest(worker.url)
            common = {"restart__backoff__ms": 100, "restart__backoff__max__ms": 500}
            rest.put(
                "in",
                connector__class="FileStreamSource",
                file=source,
                topic="lines",
                batch__size=100,
                **common,
            )
            rest.put(
                "out", connector__class="FileStreamSink", file=target, topics="lines", **common
            )
            wait_until(lambda: target.exists() and target.stat().st_size > 0)
            broker.kill()
            broker.start()
            wait_until(lambda: target.stat().st_size == source.stat().st_size, 100)
            for name in ("in", "out"):
                rest.wait_for_states(name, "RUNNING", tasks=1)
    finally:
        broker.stop()
    assert target.read_bytes() == source.read_bytes()
