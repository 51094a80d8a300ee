"""Scripts beside strom.toml are not executed by any command of a project."""

import pytest

SETTINGS = """
[kafka]
port = {port}
"""
PRODUCER = "from pathlib import Path\n(Path(__file__).parent / 'sent').write_text('again')\n"
CONSUMER = "import threading\nthreading.Event().wait()\n"


@pytest.fixture
def shop(strom, tmp_path, broker):
    """A project whose port is taken, so that `run` and `replay` end before Spark starts."""
    folder = tmp_path / "shop"
    assert strom("init", str(folder)).exit_code == 0
    port = broker.bootstrap_servers.rpartition(":")[2]
    (folder / "strom.toml").write_text(SETTINGS.format(port=port))
    (folder / "producer.py").write_text(PRODUCER)
    (folder / "consumer.py").write_text(CONSUMER)
    return folder


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("command", "ending"),
    [
        (["plan"], 0),
        (["views", "list"], 0),
        (["query", "SELECT 1 AS one"], 0),
        (["run"], 1),
        (["replay", "shop"], 1),
        (["batch", "shop"], 1),
    ],
)
def test_scripts_beside_the_definitions_are_not_executed(strom, shop, command, ending):
    result = strom(*command, "-p", str(shop))
    assert result.exit_code == ending, result.stderr
    if command[0] in {"run", "replay"}:
        assert "is not this project's own" in result.stderr
    assert not (shop / "sent").exists()


def test_a_view_in_a_file_that_is_not_loaded_is_reported_with_that_file(strom, shop):
    result = strom("replay", "orders", "-p", str(shop))
    assert result.exit_code == 1
    assert "Not loaded: consumer.py, producer.py." in result.stderr
