"""The three topics are Kafka Connect's own: its workers and ours go on where the other left off."""

import pytest

from strom.connect.runtime.rest.server import RunningWorker
from tests.connect.runtime.workers import STRING, Rest, wait_until
from tools.kafka_connect import RealConnect

TOPICS = {
    "config.storage.topic": "takeover-configs",
    "offset.storage.topic": "takeover-offsets",
    "status.storage.topic": "takeover-status",
    "offset.flush.interval.ms": "300",
    "key.converter": STRING,
    "value.converter": STRING,
}


@pytest.mark.oracle
@pytest.mark.soak
def test_workers_of_both_kinds_take_each_others_topics_over(kafka_server, tmp_path):
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("")
    servers = kafka_server.bootstrap_servers
    config = {**TOPICS, "group.id": "takeover"}

    def add_lines_and_wait(rest, first):
        with source.open("a") as file:
            file.writelines(f"{number}\n" for number in range(first, first + 10))
        expected = [str(number) for number in range(first + 10)]
        wait_until(lambda: target.exists() and target.read_text().splitlines() == expected)
        size = source.stat().st_size
        wait_until(
            lambda: (
                [one["offset"]["position"] for one in rest.get("/connectors/in/offsets")["offsets"]]
                == [size]
            )
        )

        def committed():
            found = rest.get("/connectors/out/offsets")["offsets"]
            return [one["offset"]["kafka_offset"] >= first + 10 for one in found] == [True]

        wait_until(committed)

    own = {**config, "bootstrap.servers": servers, "rest.port": "0"}
    with RunningWorker(own) as worker:
        rest = Rest(worker.url)
        rest.put("in", connector__class="FileStreamSource", file=source, topic="takeover")
        rest.put("out", connector__class="FileStreamSink", file=target, topics="takeover")
        add_lines_and_wait(rest, 0)
    soon = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}
    soon["consumer.session.timeout.ms"] = "6000"  # it is killed, and forgotten only then
    with RealConnect(servers, config=config | soon) as theirs:
        rest = Rest(theirs.url)
        assert sorted(rest.get("/connectors")) == ["in", "out"]
        add_lines_and_wait(rest, 10)
    # Kafka's sink does not know of our positions beside the file: theirs are the group's.
    (tmp_path / "out.txt.positions").unlink()
    with RunningWorker(own) as worker:
        rest = Rest(worker.url)
        assert sorted(rest.get("/connectors")) == ["in", "out"]
        add_lines_and_wait(rest, 20)
