"""`strom verify` on the files of a real broker."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from strom.testing import BrokerProcess
from strom.wire.kafka.batch import headers


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The data directory of a stopped broker, with three batches in `clicks-0`."""
    data = tmp_path_factory.mktemp("verify") / "data"
    with BrokerProcess(data=str(data)) as server:
        producer = Producer({"bootstrap.servers": server.bootstrap_servers})
        for number in range(3):
            producer.produce("clicks", b"%d" % number, partition=0)
            assert producer.flush(30) == 0
        assert server.terminate() == 0
    return data


@pytest.fixture
def data(whole, tmp_path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "data"))


@pytest.fixture
def damaged(data):
    path = data / "clicks-0" / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[[at for at, _ in headers(content)][1] + 65] ^= 1
    path.write_bytes(content)
    return data


def test_a_whole_directory(strom, data):
    result = strom("verify", str(data))
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"{data} is whole: ")


def test_damage_is_shown_and_salvaged(strom, damaged):
    found = strom("verify", str(damaged))
    assert found.exit_code == 1
    assert ["clicks-0", "damaged", "1-1", f"{0:020d}.log"] in [
        line.split() for line in found.stdout.splitlines()
    ]
    assert "--repair" in found.stderr
    repaired = strom("verify", str(damaged), "--repair", "--json")
    assert repaired.exit_code == 0
    (partition,) = [
        one for one in json.loads(repaired.stdout)["partitions"] if one["partition"] == "clicks-0"
    ]
    assert (partition["batches"], partition["repair"]["batches_kept"]) == (2, 2)
    assert [(one["first_offset"], one["last_offset"]) for one in partition["damage"]] == [(1, 1)]
    assert (Path(partition["repair"]["copy"]) / "partition.metadata").exists()
    assert strom("verify", str(damaged)).exit_code == 0
    with BrokerProcess(data=str(damaged)) as server:
        assert server.terminate() == 0
        assert "belongs to no known topic" not in server.words()


def test_a_missing_list_of_topics_is_a_problem(strom, data):
    shutil.rmtree(data / "__cluster_metadata-0")
    result = strom("verify", str(data))
    assert result.exit_code == 1
    assert "__cluster_metadata-0 with the list of topics is missing" in result.stderr


def test_beside_a_broker_it_reads_only(strom, data):
    with BrokerProcess(data=str(data)):
        result = strom("verify", str(data))
        assert result.exit_code == 0, result.output
        assert "In use by process" in result.stderr
        refused = strom("verify", str(data), "--repair")
        assert refused.exit_code == 1
        assert "nothing was changed" in refused.stderr


def test_a_folder_of_something_else(strom, tmp_path):
    result = strom("verify", str(tmp_path))
    assert result.exit_code == 1
    assert "is not a data directory" in result.stderr


def test_a_killed_repair_can_be_repeated(damaged):
    """Killed before every rename and removal of a real file system, until it gets through."""
    script = (
        "import os, sys\n"
        "from strom.storage import files\n"
        "left = int(sys.argv.pop(1))\n"
        "def count(original):\n"
        "    def call(*arguments):\n"
        "        global left\n"
        "        left -= 1\n"
        "        if left < 0:\n"
        "            os._exit(9)\n"
        "        return original(*arguments)\n"
        "    return call\n"
        "for name in ('rename', 'remove'):\n"
        "    setattr(files.DiskFiles, name, count(getattr(files.DiskFiles, name)))\n"
        "from strom.cli.program import main\n"
        "main()\n"
    )
    for steps in range(20):
        command = [sys.executable, "-c", script, str(steps), "verify", str(damaged), "--repair"]
        ended = subprocess.run(command, capture_output=True, check=False, env=os.environ)
        assert ended.returncode in (0, 9), ended.stderr
        if ended.returncode == 0:
            break
    assert steps > 2
    content = (damaged / "clicks-0" / f"{0:020d}.log").read_bytes()
    assert [header.base_offset for _, header in headers(content)] == [0, 2]


def test_a_lost_transaction_index_is_shown_and_rebuilt_by_the_next_start(strom, tmp_path):
    data = tmp_path / "data"
    with BrokerProcess(data=str(data)) as server:
        ids = {"transactional.id": "t"}
        producer = Producer({"bootstrap.servers": server.bootstrap_servers, **ids})
        producer.init_transactions(30)
        for value in (b"aborted", b"committed"):
            producer.begin_transaction()
            producer.produce("paid", value, partition=0)
            assert producer.flush(30) == 0
            if value == b"aborted":
                producer.abort_transaction(30)
        producer.commit_transaction(30)
        assert server.terminate() == 0
    for suffix in ("txnindex", "index", "timeindex"):
        (data / "paid-0" / f"{0:020d}.{suffix}").unlink()
    found = strom("verify", str(data))
    assert found.exit_code == 1
    assert "paid-0" in found.stdout
    assert "rebuilds these transaction indexes" in found.stderr
    with BrokerProcess(data=str(data)) as server:
        settings = {"bootstrap.servers": server.bootstrap_servers, "group.id": "g"}
        consumer = Consumer({**settings, "isolation.level": "read_committed"})
        consumer.assign([TopicPartition("paid", 0, 0)])
        message = consumer.poll(30)
        assert message is not None
        assert message.value() == b"committed"
        consumer.close()
        assert server.terminate() == 0
    assert strom("verify", str(data)).exit_code == 0
