"""The Java client, through Kafka's own command line tools (each test starts a JVM or two)."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.batches import Record, batch
from tests.conformance.calls import Topic, end_offset, produce
from tests.conformance.raw import RawClient
from tests.conftest import Target
from tools import kafka

pytestmark = [pytest.mark.oracle, pytest.mark.slow]
Run = Callable[..., str]
MakeTopic = Callable[..., Topic]


@pytest.fixture
def run(target: Target) -> Run:
    """Runs a tool against the broker under test; gives what it prints."""

    def run_tool(tool: str, *arguments: str, stdin: str = "") -> str:
        class_name = tool if tool.startswith("kafka.") else f"org.apache.kafka.tools.{tool}"
        address = ("--bootstrap-server", target.bootstrap_servers)
        try:
            done = kafka.run_tool(class_name, *address, *arguments, stdin=stdin)
        except kafka.UnavailableError as reason:
            pytest.skip(f"no Kafka tools: {reason}")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run_tool


def test_topics_are_created_described_and_deleted(run: Run, topic: str) -> None:
    run(
        "TopicCommand",
        *("--create", "--topic", topic, "--partitions", "3", "--replication-factor", "1"),
        *("--config", "retention.ms=5000"),
    )
    described = run("TopicCommand", "--describe", "--topic", topic)
    assert "PartitionCount: 3" in described
    assert "retention.ms=5000" in described
    assert described.count("Leader: 1") == 3
    run("TopicCommand", "--delete", "--topic", topic)
    assert topic not in run("TopicCommand", "--list").splitlines()


def test_lines_go_in_and_come_out(run: Run, topic: str) -> None:
    lines = [f"key{number}:line {number}" for number in range(100)]
    run(
        "ConsoleProducer",
        *("--topic", topic, "--compression-codec", "zstd"),
        *("--reader-property", "parse.key=true", "--reader-property", "key.separator=:"),
        stdin="\n".join(lines) + "\n",
    )
    printed = run(
        "consumer.ConsoleConsumer",
        *("--topic", topic, "--partition", "0", "--offset", "10", "--max-messages", "90"),
        *("--formatter-property", "print.key=true", "--formatter-property", "key.separator=:"),
    )
    assert printed.splitlines() == lines[10:]


@pytest.mark.parametrize(
    ("time", "offset"), [("latest", 3), ("earliest", 0), ("max-timestamp", 1), ("1500", 1)]
)
def test_offsets_are_listed(
    run: Run, client: RawClient, make_topic: MakeTopic, time: str, offset: int
) -> None:
    topic = make_topic()
    records = [Record(b"x", timestamp_ms=at) for at in (1000, 3000, 2000)]
    produce(client, topic, batch(*records))
    printed = run("GetOffsetShell", "--topic", topic.name, "--time", time)
    assert printed.split() == [f"{topic.name}:0:{offset}"]


def test_settings_are_changed(run: Run, make_topic: MakeTopic) -> None:
    topic = make_topic(configs={"segment.ms": "60000"}).name
    entity = ("--entity-type", "topics", "--entity-name", topic)
    configs = "kafka.admin.ConfigCommand"
    changes = ("--add-config", "retention.ms=5000", "--delete-config", "segment.ms")
    run(configs, "--alter", *entity, *changes)
    described = run(configs, "--describe", *entity)
    assert "retention.ms=5000" in described
    assert "segment.ms" not in described


def test_records_are_deleted(
    run: Run, client: RawClient, make_topic: MakeTopic, tmp_path: Path
) -> None:
    made = make_topic()
    topic = made.name
    produce(client, made, batch(b"one", b"two", b"three"))
    plan = tmp_path / "plan.json"
    partition = {"topic": topic, "partition": 0, "offset": 2}
    plan.write_text(json.dumps({"partitions": [partition], "version": 1}))
    printed = run("DeleteRecordsCommand", "--offset-json-file", str(plan))
    assert "low_watermark: 2" in printed
    printed = run(
        "consumer.ConsoleConsumer",
        *("--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", "1"),
    )
    assert printed.split() == ["three"]


def test_log_dirs_are_described(run: Run, make_topic: MakeTopic) -> None:
    topic = make_topic(2).name
    printed = run("LogDirsCommand", "--describe", "--topic-list", topic)
    found = json.loads(printed.splitlines()[-1])
    (folder,) = found["brokers"][0]["logDirs"]
    assert folder["error"] is None
    names = {partition["partition"] for partition in folder["partitions"]}
    assert names == {f"{topic}-0", f"{topic}-1"}


def test_the_broker_reports_its_versions(run: Run) -> None:
    printed = run("BrokerApiVersionsCommand")
    for api in ("Produce(0): 0 to 13", "Fetch(1): 4 to 18", "Metadata(3): 0 to 13"):
        assert api in printed


def test_one_broker_is_a_quorum_of_one(run: Run) -> None:
    printed = run("MetadataQuorumCommand", "describe", "--status")
    lines = dict(line.split(":", 1) for line in printed.splitlines() if line)
    assert (lines["LeaderId"].strip(), lines["MaxFollowerLag"].strip()) == ("1", "0")
    assert '{"id": 1, "endpoints": [' in lines["CurrentVoters"]


def test_features_are_at_their_level(run: Run) -> None:
    printed = run("FeatureCommand", "upgrade", "--feature", "transaction.version=2")
    assert "transaction.version was upgraded to 2." in printed


def test_partitions_stay_and_their_leaders_too(
    run: Run, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic().name
    plan = tmp_path / "plan.json"
    partition = {"topic": topic, "partition": 0, "replicas": [1]}
    plan.write_text(json.dumps({"partitions": [partition], "version": 1}))
    printed = run(
        "reassign.ReassignPartitionsCommand", "--execute", "--reassignment-json-file", str(plan)
    )
    assert f"Successfully started partition reassignment for {topic}-0" in printed
    printed = run(
        "LeaderElectionCommand",
        *("--election-type", "preferred", "--topic", topic, "--partition", "0"),
    )
    assert f"Valid replica already elected for partitions {topic}-0" in printed


def test_client_metrics_are_subscribed_to(run: Run, topic: str) -> None:
    subscription = ("--metrics", "org.apache.kafka.", "--interval", "1000")
    run("ClientMetricsCommand", "--alter", "--name", topic, *subscription)
    described = run("ClientMetricsCommand", "--describe", "--name", topic)
    assert "interval.ms=1000" in described
    assert topic in run("ClientMetricsCommand", "--list").split()


def test_the_performance_tool_measures(run: Run, client: RawClient, make_topic: MakeTopic) -> None:
    made = make_topic()
    topic = made.name
    printed = run(
        "ProducerPerformance",
        *("--topic", topic, "--num-records", "20000", "--record-size", "100"),
        *("--throughput", "-1"),
    )
    assert "20000 records sent" in printed
    assert end_offset(client, made) == 20000
