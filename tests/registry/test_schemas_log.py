"""Several registries on one topic: nothing is lost, and they agree."""

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from strom.client.fenced_writer import FencedWriter
from strom.model.errors import UserError
from strom.model.retries import RetryPolicy
from strom.registry import schemas_log
from strom.registry.client import RegistryClient, RegistryError, RegistryUnreachable
from strom.registry.records import ConfigSet, StateChange, decode
from strom.registry.schemas_log import SchemasLog
from strom.registry.server import RegistryServer
from strom.testing import BrokerProcess
from tests.registry.conftest import record


def schema(number: int) -> str:
    return json.dumps(record(f"f{number}", name=f"R{number}"))


def state(server: RegistryServer) -> object:
    server.registry.log.catch_up()
    with server.registry.reading() as subjects:
        return subjects.snapshot()


def test_two_instances_under_concurrent_registration_agree(target, topic):
    """Every schema is registered through both, at the same time, under several subjects."""
    servers, schemas = target.bootstrap_servers, 12
    with RegistryServer(servers, topic=topic) as one, RegistryServer(servers, topic=topic) as two:
        with RegistryClient(one.url) as first, RegistryClient(two.url) as second:
            jobs = [
                (client, f"s{number}-{subject}", schema(number))
                for number in range(schemas)
                for subject in range(2)
                for client in (first, second)
            ]
            with ThreadPoolExecutor(8) as pool:
                ids = list(pool.map(lambda job: (job[2], job[0].register(*job[1:])), jobs))
        by_schema = {text: {found for other, found in ids if other == text} for text, _ in ids}
        assert all(len(found) == 1 for found in by_schema.values()), "two ids for one schema"
        assert len({found for _, found in ids}) == schemas, "one id for two schemas"
        assert state(one) == state(two)
        with one.registry.reading() as subjects:
            assert all(len(subjects.versions(name)) == 1 for name in subjects.subjects())
        with RegistryServer(servers, topic=topic) as later:
            assert state(later) == state(one)


def test_who_was_fenced_off_decides_again(strom_server, topic):
    """A decision on an old state cannot be written, whatever happened in between."""
    servers = strom_server.bootstrap_servers

    def opened() -> tuple[SchemasLog, list[int]]:
        values = [0]

        def apply(item):
            entry = decode(item)
            if isinstance(entry, ConfigSet) and entry.settings is not None:
                values.append(int(str(entry.settings["n"])))

        log = SchemasLog(servers, apply, topic=topic)
        log.start()
        return log, values

    (one, seen_by_one), (two, seen_by_two) = opened(), opened()

    def following(seen: list[int]) -> StateChange[int]:
        return StateChange([ConfigSet(None, {"n": seen[-1] + 1})], seen[-1] + 1)

    decided = []

    def decide_while_another_writes() -> StateChange[int]:
        decision = following(seen_by_one)
        decided.append(decision.response)
        if len(decided) == 1:
            assert two.change(lambda: following(seen_by_two)) == 1
        return decision

    assert one.change(decide_while_another_writes) == 2
    assert decided == [1, 2]

    def add(log: SchemasLog, seen: list[int]) -> None:
        for _ in range(9):
            log.change(lambda: following(seen))

    threads = [
        threading.Thread(target=add, args=(one, seen_by_one)),
        threading.Thread(target=add, args=(two, seen_by_two)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    one.catch_up()
    two.catch_up()
    assert seen_by_one == seen_by_two == list(range(21))
    one.stop()
    two.stop()


def test_a_change_whose_answer_was_lost_is_answered_all_the_same(strom_server, topic, monkeypatch):
    """Without care the second try would say that it was done already, and that would be a refusal."""
    lost: list[object] = []

    def append_and_lose_the_answer(self, producer, records):
        real_append(self, producer, records)
        if len(lost) < 2:
            lost.append(records)
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    real_append = FencedWriter._append
    with RegistryServer(strom_server.bootstrap_servers, topic=topic) as server:
        with RegistryClient(server.url) as client:
            client.register("s", schema(1))
            monkeypatch.setattr(FencedWriter, "_append", append_and_lose_the_answer)
            assert client.register("s2", schema(2)) == 2
            assert client.ask("DELETE", "subjects", "s") == [1]
        assert len(lost) == 2
        with server.registry.reading() as subjects:
            assert subjects.subjects() == ["s2"]


def test_what_was_acknowledged_survives_kill_9_of_the_registry(strom_server, topic):
    command = [sys.executable, "-m", "strom", "registry", "-b", strom_server.bootstrap_servers]
    command += ["--port", "0", "--topic", topic, "--json"]
    acknowledged: dict[str, int] = {}
    for life in range(3):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ))
        url = json.loads(process.stdout.readline())["registry_url"]
        # In the midst of things: some are acknowledged by then, and one is under way.
        killer = threading.Timer(0.03 * life, process.send_signal, [signal.SIGKILL])
        with RegistryClient(url, retries=RetryPolicy(attempts=1)) as client:
            for number in range(1000 * life, 1000 * life + 1000):
                try:
                    acknowledged[f"s{number}"] = client.register(f"s{number}", schema(number))
                except RegistryUnreachable:
                    break
                if number == 1000 * life + 4:
                    killer.start()
        process.wait(20)
        process.stdout.close()
        killer.join()
    assert len(acknowledged) >= 15
    with RegistryServer(strom_server.bootstrap_servers, topic=topic) as server:
        with RegistryClient(server.url) as client:
            for subject, schema_id in acknowledged.items():
                found = client.latest(subject)
                assert (found.id, found.version) == (schema_id, 1)
                assert json.loads(found.text) == json.loads(schema(int(subject[1:])))
        with server.registry.reading() as subjects:
            ids = [one.id for one in subjects.all_versions()]
        assert len(set(ids)) == len(ids)


def test_a_recreated_topic_ends_changes_but_not_lookups(strom_server, topic):
    """What is decided on schemas that are no longer in the topic would contradict other instances."""
    admin = AdminClient({"bootstrap.servers": strom_server.bootstrap_servers})
    servers = strom_server.bootstrap_servers
    with (
        RegistryServer(servers, topic=topic) as server,
        RegistryClient(server.url, retries=RetryPolicy(attempts=1)) as client,
    ):
        first = client.register("s", schema(1))
        admin.delete_topics([topic])[topic].result()
        config = {"cleanup.policy": "compact"}
        admin.create_topics([NewTopic(topic, 1, config=config)])[topic].result()
        follower = server.registry.log._follower
        with follower.changed:
            assert follower.changed.wait_for(lambda: follower.failure is not None, 30)
        with pytest.raises(RegistryError, match="truncated or recreated"):
            client.register("s2", schema(2))
        assert client.version("s", 1).id == first
    with RegistryServer(servers, topic=topic) as later, RegistryClient(later.url) as client:
        assert client.register("s2", schema(2)) == 1


@pytest.mark.slow
def test_the_registry_outlives_its_broker():
    """Look-ups go on from memory while the broker is away; changes wait for it."""
    with (
        BrokerProcess() as broker,
        RegistryServer(broker.bootstrap_servers) as server,
        RegistryClient(server.url) as client,
    ):
        first = client.register("s", schema(1))
        broker.kill()
        assert client.version("s", 1).id == first
        waiting = threading.Timer(1.0, broker.start)
        waiting.start()
        second = client.register("s2", schema(2))
        waiting.join()
        assert (second, client.latest("s2").id) == (first + 1, first + 1)


def test_a_topic_that_would_lose_schemas_is_refused(strom_server, topic):
    admin = AdminClient({"bootstrap.servers": strom_server.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1)])[topic].result()
    with pytest.raises(UserError, match="not compacted"):
        RegistryServer(strom_server.bootstrap_servers, topic=topic).start()


def test_a_topic_of_several_partitions_is_refused(strom_server, topic):
    admin = AdminClient({"bootstrap.servers": strom_server.bootstrap_servers})
    config = {"cleanup.policy": "compact"}
    admin.create_topics([NewTopic(topic, 3, config=config)])[topic].result()
    with pytest.raises(UserError, match="3 partitions"):
        RegistryServer(strom_server.bootstrap_servers, topic=topic).start()


def test_a_broker_that_is_not_there_is_reported(monkeypatch):
    monkeypatch.setattr(schemas_log, "RESPONSE_S", 0.5)
    with pytest.raises(UserError, match="No Kafka broker responds"):
        RegistryServer("127.0.0.1:1").start()
