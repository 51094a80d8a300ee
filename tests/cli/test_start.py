"""Starting a broker from the command line."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pika
import pika.exceptions
import pytest

from strom.cli.start import broker_settings, companions_beside
from strom.model.broker_settings import BrokerSettings
from strom.model.errors import ApiError, UserError


def test_settings_go_to_the_broker_and_to_the_topic_defaults():
    settings = broker_settings(
        {"num.partitions": "3", "log.retention.ms": "1000", "flush": "os", "host": "::1"}
    )
    assert settings.num_partitions == 3
    assert settings.host == "::1"
    assert settings.topic_defaults.retention_ms == 1000
    assert not settings.topic_defaults.durable


def test_programs_beside_the_broker_know_its_hosts():
    settings = broker_settings({"http.allowed.hosts": "a.example,b", "advertised.host": "node-1"})
    registry, worker = companions_beside(settings, 8081, 8083)
    assert registry.args[-2:] == ("--allowed-hosts", "a.example,b,node-1")
    assert worker.args[-2:] == ("--set", "http.allowed.hosts=a.example,b,node-1")
    alone = companions_beside(BrokerSettings(), 8081, 8083)
    assert [one.args[-2:] for one in alone] == [("--port", "8081"), ("--port", "8083")]


def test_nothing_set_is_the_default():
    assert broker_settings({}) == BrokerSettings()


def test_an_unknown_setting_is_answered_with_the_nearest():
    with pytest.raises(UserError, match=r"Did you mean log\.retention\.ms\?"):
        broker_settings({"log.retention.m": "1"})


def test_a_topic_setting_is_answered_with_its_broker_name():
    with pytest.raises(UserError, match=r"default of all topics with log\.retention\.ms"):
        broker_settings({"retention.ms": "1"})


def test_a_wrong_value_is_refused_by_its_definition():
    with pytest.raises(ApiError, match="at most 65535"):
        broker_settings({"port": "70000"})


@pytest.mark.parametrize(
    "arguments",
    [["--port", "x"], ["--flush", "never"], ["--set", "port"], ["--advertised", "h:x"]],
)
def test_a_mistake_is_one_line(strom, arguments):
    result = strom("start", *arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1


def test_a_malformed_host_is_reported_before_anything_starts(strom, tmp_path):
    data = tmp_path / "data"
    result = strom(
        *("start", "--amqp-port", "0", "--data", str(data), "--registry-port", "1"),
        *("--set", "http.allowed.hosts=http://a.example"),
    )
    assert result.exit_code == 1
    assert "Invalid host 'http://a.example' in http.allowed.hosts" in result.stderr
    assert not data.exists()


def test_a_secret_on_the_command_line_is_refused_and_not_repeated(strom):
    result = strom("start", "--set", "amqp.password=s3cret")
    assert result.exit_code == 1
    assert "--config FILE" in result.stderr
    assert "s3cret" not in result.stdout + result.stderr


def test_a_config_file_may_begin_with_a_byte_order_mark(strom, tmp_path):
    config = tmp_path / "server.properties"
    config.write_text("port=x\r\n", encoding="utf-8-sig", newline="")
    result = strom("start", "--config", str(config))
    assert result.exit_code == 1
    assert "Invalid value x for configuration port" in result.stderr


def test_a_config_file_that_names_an_unknown_setting_is_refused(strom, tmp_path):
    config = tmp_path / "server.properties"
    config.write_text("prt=0\n")
    result = strom("start", "--config", str(config))
    assert result.exit_code == 1
    assert "Did you mean port?" in result.stderr


def test_the_help_comes_from_the_definitions(strom):
    shown = " ".join(strom("start", "--help").stdout.split())
    assert BrokerSettings.definition("port").doc in shown
    assert "default: strom-data" in shown


def start(*arguments: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "strom", "start", "--port", "0", "--amqp-port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def read_lines(process: "subprocess.Popen[bytes]", count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().decode() for _ in range(count)]


def test_it_says_when_it_is_ready_and_ends_cleanly_on_sigterm(tmp_path):
    with start("--data", str(tmp_path / "data"), "--json") as process:
        ready = json.loads(read_lines(process, 1)[0])
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    assert process.returncode == 0
    assert ready["bootstrap_servers"].startswith("127.0.0.1:")
    assert ready["data"] == str(tmp_path / "data")
    assert ready["topics"] == 0


def test_it_prints_the_next_commands_to_type(tmp_path):
    with start("--data", str(tmp_path / "data")) as process:
        lines = read_lines(process, 8)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert process.returncode == 0
    address = lines[1].split()[-1]
    assert f"  strom produce clicks -b {address}\n" in lines
    assert f"  strom consume clicks --from-beginning -b {address}\n" in lines


def test_a_port_in_use_is_reported_in_one_line(tmp_path, broker):
    port = broker.bootstrap_servers.rpartition(":")[2]
    with start("--data", str(tmp_path / "data"), "--port", port) as process:
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 1
    assert errors.startswith(b"Error: ")
    assert errors.count(b"\n") == 1
    assert port.encode() in errors


def test_an_unusable_data_folder_is_reported_in_one_line(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with start("--data", str(tmp_path / "file")) as process:
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 1
    assert errors.startswith(b"Error: ")
    assert errors.count(b"\n") == 1


def test_a_password_from_a_file_holds_and_is_shown_nowhere(tmp_path):
    config = tmp_path / "server.properties"
    config.write_text("amqp.user=eva\namqp.password=s3cret\namqp.management.port=0\n")
    with start(
        "--config", str(config), "--amqp-port", "-1", "--data", str(tmp_path / "data"), "--json"
    ) as process:
        line = read_lines(process, 1)[0]
        url = json.loads(line)["amqp_url"]
        arguments = Path(f"/proc/{process.pid}/cmdline")
        shown = arguments.read_text() if arguments.exists() else ""
        pika.BlockingConnection(pika.URLParameters(url.replace("***", "s3cret"))).close()
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            pika.BlockingConnection(pika.URLParameters(url.replace("***", "guest")))
        process.send_signal(signal.SIGTERM)
        _, words = process.communicate(timeout=20)
    assert url.startswith("amqp://eva:***@127.0.0.1:")
    assert "s3cret" not in line + shown + words.decode()
