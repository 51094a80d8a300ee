"""RabbitMQ's Java client is run only as it was published, and else it is said what is missing."""

from pathlib import Path

import pytest

from tools import amqp_client


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STROM_KAFKA_HOME", str(tmp_path))
    return tmp_path / "amqp-client"


def test_missing_jars_are_named_with_what_to_do(jars: Path) -> None:
    with pytest.raises(amqp_client.UnavailableError, match=r"\.jar is not in .*`make rabbitmq`"):
        amqp_client.locate()


def test_a_jar_with_a_wrong_checksum_is_not_run(jars: Path) -> None:
    jars.mkdir()
    for name in amqp_client.JARS.checksums():
        (jars / name).write_bytes(b"not what was published")
    with pytest.raises(amqp_client.UnavailableError, match="wrong checksum"):
        amqp_client.locate()


def test_without_maven_the_reason_is_given(
    jars: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(jars))
    monkeypatch.setattr("sys.argv", ["amqp_client", "fetch"])
    assert amqp_client.main() == 0
    assert "install `mvn`" in capsys.readouterr().out
