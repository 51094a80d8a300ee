"""The real Kafka is run only as it should be, and the reason is kept where it cannot be fetched."""

import os
from pathlib import Path

import psutil
import pytest

from tools import kafka


@pytest.fixture
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STROM_KAFKA_HOME", str(tmp_path))
    return tmp_path


def test_missing_jars_are_named_with_what_to_do(empty_home: Path) -> None:
    with pytest.raises(kafka.UnavailableError, match=r"\.jar is not in .*; run `make kafka`"):
        kafka.locate()


def test_a_jar_with_a_wrong_checksum_is_not_run(empty_home: Path) -> None:
    jars = empty_home / "libs"
    jars.mkdir()
    checksums = Path(kafka.__file__).with_name("kafka.sha256").read_text()
    for line in checksums.splitlines():
        (jars / line.split()[1]).write_bytes(b"not what was published")
    with pytest.raises(kafka.UnavailableError, match="wrong checksum"):
        kafka.locate()


def test_without_maven_the_reason_is_kept_for_the_tests(
    empty_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(empty_home))
    monkeypatch.setattr("sys.argv", ["kafka", "fetch"])
    assert kafka.main() == 0
    assert "install `mvn`" in capsys.readouterr().out
    with pytest.raises(kafka.UnavailableError, match="install `mvn`"):
        kafka.locate()


@pytest.mark.oracle
def test_a_node_leaves_nothing_behind() -> None:
    try:
        kafka.locate()
    except kafka.UnavailableError as reason:
        pytest.skip(f"no real Kafka: {reason}")
    with kafka.RealKafka() as node:
        process = psutil.Process(node.pid)
        folder = node.log_file.parent
        assert process.is_running()
        assert 0 < node.startup_seconds < 60
        assert "Kafka Server started" in node.log_file.read_text()
    assert not process.is_running()
    assert not os.path.exists(folder)
