"""What `strom start` does when something is in the way: one clear line, and nothing is touched."""

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from strom.testing import BrokerProcess

MIB = 1024 * 1024
NO_QUEUES = ("--amqp-port", "0")


def start(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run `strom start`, which is expected to end by itself."""
    command = [sys.executable, "-m", "strom", "start", "--port", "0", *NO_QUEUES, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def one_line(ended: "subprocess.CompletedProcess[str]") -> str:
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    assert ended.stderr.count("\n") == 1, ended.stderr
    return ended.stderr


def fingerprint(folder: Path) -> dict[str, str]:
    """Every file below a folder with a hash of its content; the lock says only who is there."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def fill(server: BrokerProcess, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    for future in admin.create_topics([NewTopic(topic, 1) for topic in topics]).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": server.bootstrap_servers, "acks": "all"})
    for topic in topics:
        for number in range(10):
            producer.produce(topic, b"%d" % number)
    assert producer.flush(30) == 0


def read(server: BrokerProcess, topic: str) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": server.bootstrap_servers, "group.id": "judge", "log_level": 0}
    )
    try:
        partition = TopicPartition(topic, 0, 0)
        _, end = consumer.get_watermark_offsets(partition, timeout=10)
        consumer.assign([partition])
        return [message.value() for message in consumer.consume(end, timeout=30)]
    finally:
        consumer.close()


def messages(server: BrokerProcess, offset: int, count: int) -> list[Message]:
    """The next messages or errors that a new consumer of `clicks` gets from an offset on."""
    consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": "judge"})
    try:
        consumer.assign([TopicPartition("clicks", 0, offset)])
        found: list[Message] = consumer.consume(count, timeout=30)
        return found
    finally:
        consumer.close()


def test_a_port_in_use(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        told = one_line(start("--port", str(port), "--data", str(tmp_path / "data")))
    assert f"Port {port}" in told
    assert "--port" in told


def test_a_file_where_the_folder_should_be(tmp_path):
    path = tmp_path / "data"
    path.write_text("mine")
    assert "--data" in one_line(start("--data", str(path)))
    assert path.read_text() == "mine"


def test_a_folder_below_a_file(tmp_path):
    (tmp_path / "file").write_text("mine")
    assert "--data" in one_line(start("--data", str(tmp_path / "file" / "data")))


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0 or sys.platform != "linux",
    reason="a mount that even root cannot write needs root on Linux",
)
def test_a_folder_that_cannot_be_written(tmp_path):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,ro", "tmpfs", str(tmp_path)], check=True)
    try:
        assert "Read-only" in one_line(start("--data", str(tmp_path)))
        assert "--data" in one_line(start("--data", str(tmp_path / "new")))
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere"
)
def test_a_folder_without_permission(tmp_path):
    tmp_path.chmod(0o500)
    assert "--data" in one_line(start("--data", str(tmp_path / "new")))
    tmp_path.chmod(0o700)


def test_a_folder_with_foreign_files_is_not_touched(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    (tmp_path / "notes").mkdir()
    before = fingerprint(tmp_path)
    assert "files of another program" in one_line(start("--data", str(tmp_path)))
    assert fingerprint(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes", "thesis.txt"]


def test_a_folder_in_use_by_another_process(tmp_path):
    with BrokerProcess(data=str(tmp_path)) as server:
        told = one_line(start("--data", str(tmp_path)))
        assert "in use" in told
        assert str(server.pid) in told
        fill(server, "still-served")
        assert len(read(server, "still-served")) == 10


def damage(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize("clean_stop", [True, False])
def test_metadata_that_cannot_be_read_stop_the_start_and_nothing_is_deleted(tmp_path, clean_stop):
    with BrokerProcess(
        data=str(tmp_path), settings={"log.flush.offset.checkpoint.interval.ms": "100"}
    ) as server:
        fill(server, "precious")
        if not clean_stop:
            wait_for_checkpoint(tmp_path, "__cluster_metadata-0")
            server.kill()
    (log,) = (tmp_path / "__cluster_metadata-0").glob("*.log")
    damage(log, 100)
    before = fingerprint(tmp_path / "precious-0"), fingerprint(tmp_path / "__cluster_metadata-0")
    for _ in range(2):
        ended = start("--data", str(tmp_path))
        assert ended.returncode == 1
        assert "Traceback" not in ended.stderr
        assert "metadata log" in ended.stderr.splitlines()[-1]
    after = fingerprint(tmp_path / "precious-0"), fingerprint(tmp_path / "__cluster_metadata-0")
    assert after == before


def wait_for_checkpoint(data: Path, name: str, offset: int = 1) -> None:
    """Return when the checkpoint says that something of a partition is safe."""
    import time

    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        text = (data / "checkpoint").read_text() if (data / "checkpoint").exists() else ""
        lines = [line.split() for line in text.splitlines() if line.startswith(name)]
        if lines and int(lines[0][2]) >= offset:
            return
        time.sleep(0.02)
    raise AssertionError(f"no checkpoint of {name}")


@pytest.mark.parametrize("identity", ["", "{", "[]", '{"format": 99}', '{"format": 1}'])
def test_an_identity_that_cannot_be_read_stops_the_start(tmp_path, identity):
    with BrokerProcess(data=str(tmp_path)) as server:
        fill(server, "precious")
    (tmp_path / "strom.json").write_text(identity)
    before = fingerprint(tmp_path)
    assert "strom.json" in one_line(start("--data", str(tmp_path)))
    assert fingerprint(tmp_path) == before


def test_a_folder_of_another_node_is_refused(tmp_path):
    with BrokerProcess(data=str(tmp_path)) as server:
        fill(server, "precious")
    assert "node 1" in one_line(start("--data", str(tmp_path), "--set", "node.id=2"))


def test_a_partition_without_its_files_is_quarantined_and_the_others_serve(tmp_path):
    with BrokerProcess(
        data=str(tmp_path), settings={"log.flush.offset.checkpoint.interval.ms": "100"}
    ) as server:
        fill(server, "damaged", "healthy")
        wait_for_checkpoint(tmp_path, "damaged-0")
        wait_for_checkpoint(tmp_path, "healthy-0")
        server.kill()
        (log,) = (tmp_path / "damaged-0").glob("*.log")
        log.unlink()
        before = fingerprint(tmp_path / "damaged-0")
        server.start()
        assert read(server, "healthy") == [b"%d" % number for number in range(10)]
        with pytest.raises(KafkaException):
            read(server, "damaged")
        assert "quarantined" in server.words()
        assert "Traceback" not in server.words()
        assert server.terminate() == 0
        assert fingerprint(tmp_path / "damaged-0") == before
        server.start()
        with pytest.raises(KafkaException):
            read(server, "damaged")
        assert len(read(server, "healthy")) == 10


@pytest.mark.parametrize("clean_stop", [True, False])
def test_a_damaged_batch_is_an_error_for_its_reader_only(tmp_path, clean_stop):
    with BrokerProcess(
        data=str(tmp_path), settings={"log.flush.offset.checkpoint.interval.ms": "100"}
    ) as server:
        fill(server, "clicks")
        producer = Producer({"bootstrap.servers": server.bootstrap_servers})
        for value in (b"damaged", b"next"):
            producer.produce("clicks", value)
            assert producer.flush(30) == 0
        if clean_stop:
            assert server.terminate() == 0
        else:
            wait_for_checkpoint(tmp_path, "clicks-0", 12)
            server.kill()
        (log,) = (tmp_path / "clicks-0").glob("*.log")
        damage(log, log.read_bytes().index(b"damaged"))
        server.start()
        (corrupt,) = messages(server, 10, 1)
        assert corrupt.error().code() == KafkaError.INVALID_MSG  # librdkafka's CORRUPT_MESSAGE
        assert [one.value() for one in messages(server, 11, 1)] == [b"next"]
        assert [one.value() for one in messages(server, 0, 10)] == [b"%d" % n for n in range(10)]
        assert "Reads of " in server.words()


@pytest.mark.parametrize("arguments", [[], ["--advertised", "broker.example:9"]])
def test_opening_the_broker_to_the_network_is_warned_of(tmp_path, arguments):
    command = [sys.executable, "-m", "strom", "start", "--port", "0", *NO_QUEUES, "--json"]
    command += ["--host", "0.0.0.0", "--data", str(tmp_path), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    ready = json.loads(process.stdout.readline())
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "without authentication" in told
    assert "without authentication" in ready["warnings"][0]
    assert ("--advertised" in told) == (not arguments)


def test_when_ready_one_line_of_json_is_printed(tmp_path):
    command = [sys.executable, "-m", "strom", "start", "--port", "0", *NO_QUEUES, "--json"]
    process = subprocess.Popen(
        [*command, "--data", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    ready = json.loads(process.stdout.readline())
    host, port = ready["bootstrap_servers"].split(":")
    with socket.create_connection((host, int(port)), timeout=10):
        pass
    process.send_signal(signal.SIGTERM)
    rest, told = process.communicate(timeout=30)
    assert (process.returncode, rest, told) == (0, "", "")
