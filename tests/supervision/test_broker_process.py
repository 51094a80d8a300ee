import subprocess
import sys

import pika
import psutil
import pytest

from strom.testing import BrokerProcess
from tests.testing.test_local_broker import receive, send


def test_what_was_acknowledged_is_there_after_a_kill(tmp_path):
    broker = BrokerProcess(data=str(tmp_path / "data"))
    try:
        address = broker.start().bootstrap_servers
        send(address, b"one")
        broker.kill()
        assert broker.start().bootstrap_servers == address, "it comes back at the same address"
        assert receive(address, 1) == [b"one"]
        assert broker.terminate() == 0
    finally:
        broker.stop()


def test_a_start_that_fails_says_why(tmp_path):
    (tmp_path / "foreign").write_text("not ours")
    broker = BrokerProcess(data=str(tmp_path))
    with pytest.raises(RuntimeError, match="strom start exited with code 1 before it was ready: "):
        broker.start()
    broker.stop()


def test_a_password_is_passed_by_a_file_and_part_of_the_url():
    password = r"a\b:/@ü"
    settings = {"amqp.user": "eva", "amqp.password": password}
    with BrokerProcess(settings=settings, queues=True) as broker:
        pika.BlockingConnection(pika.URLParameters(broker.amqp_url)).close()
        broker.kill()
        broker.start()
        pika.BlockingConnection(pika.URLParameters(broker.amqp_url)).close()
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            pika.BlockingConnection(pika.URLParameters(broker.amqp_url.replace("eva", "guest")))


def test_a_port_that_is_in_use_is_never_taken_for_its_own(broker):
    """Another broker responds there."""
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    process = BrokerProcess(port=port)
    with pytest.raises(RuntimeError, match=str(port)):
        process.start()
    assert process.bootstrap_servers == ""
    process.stop()


def test_it_ends_when_its_owner_is_killed(tmp_path):
    program = (
        "import sys, threading\nfrom strom.testing import BrokerProcess\n"
        "print(BrokerProcess(data=sys.argv[1]).start().pid, flush=True)\nthreading.Event().wait()"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as owner:
        orphan = psutil.Process(int(owner.stdout.readline()))
        owner.kill()
    orphan.wait(30)
    assert (tmp_path / "data" / "clean-stop").exists(), "it had the time to stop cleanly"
