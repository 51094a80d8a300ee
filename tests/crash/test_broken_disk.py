"""A disk that fails under `strom start`: nothing more is acknowledged, and it ends with one line."""

import json
import shutil
import subprocess
import sys

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from strom.testing import BrokerProcess
from tests.crash.ledger import Ledger, read_topic

TOPIC = "clicks"


def can_inject() -> bool:
    """Whether strace is here and may make a system call fail."""
    if shutil.which("strace") is None:
        return False
    command = ["strace", "-qq", "-o", "/dev/null", "-e", "inject=sync:error=EIO", "true"]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not can_inject(), reason="strace is not here, or may not trace")
@pytest.mark.parametrize(("call", "healthy"), [("fdatasync", 5), ("write", 5)])
def test_after_an_input_output_error_strom_ends_with_one_line_and_code_1(tmp_path, call, healthy):
    data = tmp_path / "data"
    with BrokerProcess(data=str(data)) as server:
        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(30)
    (log,) = (data / f"{TOPIC}-0").glob("*.log")
    command = ["strace", "-f", "-qq", "-o", "/dev/null", "-P", str(log), "-e", f"trace={call}"]
    command += ["-e", f"inject={call}:error=EIO:when={healthy + 1}+"]
    command += [
        sys.executable,
        "-m",
        "strom",
        "start",
        "--port",
        "0",
        "--amqp-port",
        "0",
        "--json",
        "--data",
        str(data),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = json.loads(process.stdout.readline())["bootstrap_servers"]
    ledger = send_until_refused(address)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Traceback" not in told
    last = told.splitlines()[-1]
    assert str(data) in last
    assert "acknowledged" in last
    assert len(ledger.acked) == healthy
    with BrokerProcess(data=str(data)) as server:
        found = read_topic(server.bootstrap_servers, TOPIC, 1)
    ledger.check(found)


def send_until_refused(address: str) -> Ledger:
    """One record at a time."""
    ledger = Ledger()
    producer = Producer(
        {
            "bootstrap.servers": address,
            "acks": "all",
            "retries": 0,
            "message.timeout.ms": 20_000,
            "log_level": 0,
        }
    )
    for number in range(50):
        value = b"%d" % number
        ledger.note_sent(0, value)
        producer.produce(TOPIC, value, partition=0, on_delivery=ledger.note_answer)
        assert producer.flush(60) == 0
        if ledger.refused:
            return ledger
    raise AssertionError("the disk never failed")
