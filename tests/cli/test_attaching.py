"""The Kafka of a project: its own broker, or the one that it names, and no other at its port."""

import contextlib
import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from strom.cli.embedded_broker import EmbeddedBroker
from strom.cli.project import cluster_id_in, log_of
from strom.model.errors import UserError
from strom.pipelines import Project
from strom.pipelines.data_folder import CLUSTER_FILE, check_same_cluster
from strom.pipelines.kafka_log import KafkaLog, KafkaUnavailable
from strom.pipelines.layers.master import MasterDataset
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.settings import ProjectSettings
from strom.testing import BrokerProcess


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@pytest.fixture
def foreign(broker):
    """A broker that is there already."""
    return int(broker.bootstrap_servers.rpartition(":")[2])


def test_a_second_command_attaches_to_the_projects_own_broker(tmp_path, port):
    project = Project(tmp_path, ProjectSettings(port=port))
    with log_of(project) as first, log_of(project) as second:
        first.create("clicks", 2)
        assert second.topics()["clicks"] == 2
        assert second.cluster_id() == cluster_id_in(project.data / "broker")
    with log_of(project) as again:
        assert again.topics()["clicks"] == 2


def test_of_two_commands_that_begin_at_once_one_starts_the_broker(tmp_path, port):
    project = Project(tmp_path, ProjectSettings(port=port))
    both = threading.Barrier(2, timeout=30)

    def command():
        both.wait()
        with log_of(project) as kafka:
            both.wait()
            return kafka.cluster_id()

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(command), pool.submit(command)
    assert first.result() == second.result() == cluster_id_in(project.data / "broker")


def test_an_attached_command_keeps_the_broker_running_after_the_one_that_started_it(
    tmp_path, port, monkeypatch
):
    monkeypatch.setattr("strom.cli.embedded_broker.WATCH_S", 0.05)
    project = Project(tmp_path, ProjectSettings(port=port))
    with contextlib.ExitStack() as replay, contextlib.ExitStack() as run:
        replay.enter_context(log_of(project)).create("clicks", 2)
        attached = run.enter_context(log_of(project))
        replay.close()
        assert _topics_in_the_end(attached)["clicks"] == 2


def test_a_broker_that_was_killed_is_started_again(tmp_path, port, monkeypatch):
    monkeypatch.setattr("strom.cli.embedded_broker.WATCH_S", 0.05)
    started = []
    begin = BrokerProcess.start
    monkeypatch.setattr(BrokerProcess, "start", lambda it: started.append(begin(it)))
    with log_of(Project(tmp_path, ProjectSettings(port=port))) as kafka:
        kafka.create("clicks", 2)
        os.kill(started[0].pid, signal.SIGKILL)
        assert _topics_in_the_end(kafka)["clicks"] == 2


def _topics_in_the_end(kafka):
    """What a run sees that retries."""
    for _ in range(4):
        with contextlib.suppress(KafkaUnavailable):
            return kafka.topics()
    raise AssertionError("nobody runs the broker")


def test_a_foreign_broker_at_the_port_is_refused(tmp_path, foreign):
    project = Project(tmp_path, ProjectSettings(port=foreign))
    with pytest.raises(UserError) as refused, log_of(project):
        pass
    assert f"Port {foreign} is in use by a Kafka broker that is not this project's own" in str(
        refused.value
    )
    assert f'`servers = "127.0.0.1:{foreign}"`' in str(refused.value)
    assert "`port` under [kafka]" in str(refused.value)
    assert not (project.data / CLUSTER_FILE).exists()


def test_what_responds_at_the_port_is_not_taken_for_the_projects_broker(tmp_path, port):
    with socket.create_server(("127.0.0.1", port)):
        assert not EmbeddedBroker(tmp_path, port).is_running


def test_another_program_at_the_port_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(KafkaLog.__init__.__kwdefaults__, "timeout_s", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        project = Project(tmp_path, ProjectSettings(port=listener.getsockname()[1]))
        with pytest.raises(UserError, match="does not respond as a Kafka broker"), log_of(project):
            pass


def test_a_free_port_is_not_reported_as_used(tmp_path, port, monkeypatch):
    """The setting was changed while another command of the project runs its broker."""
    monkeypatch.setitem(KafkaLog.__init__.__kwdefaults__, "response_seconds", 0.5)
    project = Project(tmp_path, ProjectSettings(port=port))
    with (
        BrokerProcess(data=str(project.data / "broker")),
        pytest.raises(UserError, match=f"runs, but not at port {port}"),
        log_of(project),
    ):
        pass


def test_the_cluster_that_data_was_computed_from_is_remembered(tmp_path, broker, port):
    attached = Project(tmp_path, ProjectSettings(servers=broker.bootstrap_servers))
    with log_of(attached) as kafka:
        known = kafka.cluster_id()
    with log_of(attached) as kafka:
        assert kafka.cluster_id() == known
    assert (attached.data / CLUSTER_FILE).read_text() == f"{known}\n"
    MasterDataset(attached.data / "master", "clicks").create(TopicOffsets((0,)))
    embedded = Project(tmp_path, ProjectSettings(port=port))
    with pytest.raises(UserError) as refused, log_of(embedded):
        pass
    assert f"was computed from the cluster {known}" in str(refused.value)
    assert f"remove {embedded.data / CLUSTER_FILE} to accept it" in str(refused.value)
    (embedded.data / CLUSTER_FILE).unlink()
    with log_of(embedded):
        assert (embedded.data / CLUSTER_FILE).read_text() != f"{known}\n"


def test_a_cluster_of_which_nothing_was_computed_is_forgotten(tmp_path, broker):
    project = Project(tmp_path, ProjectSettings(servers=broker.bootstrap_servers))
    project.data.mkdir(parents=True)
    (project.data / CLUSTER_FILE).write_text("wrong-address\n")
    with log_of(project) as kafka:
        assert (project.data / CLUSTER_FILE).read_text() == f"{kafka.cluster_id()}\n"


def test_a_cluster_without_an_id_is_accepted(tmp_path, broker, monkeypatch):
    monkeypatch.setattr(KafkaLog, "cluster_id", lambda kafka: None)
    (tmp_path / CLUSTER_FILE).write_text("another\n")
    with closing(KafkaLog(broker.bootstrap_servers)) as kafka:
        check_same_cluster(tmp_path, kafka)
    assert (tmp_path / CLUSTER_FILE).read_text() == "another\n"
