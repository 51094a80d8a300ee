"""kafka-python's own integration tests, run against a broker that is already there.

    python -m tools.kafka_python_tests 127.0.0.1:9092

They come with its source distribution, which is fetched once, checked and kept beside the jars.
The broker must have node id 0, which is what these tests take for granted.
"""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.source_distributions import SourceDistribution

SOURCES = SourceDistribution(
    "kafka-python",
    "3.0.12",
    "4ccda3616b9aa5c353d74a97f2770d6cd1b950890d77ab0e8890e09a48eeed65",
)
CLAIMED_KAFKA_VERSION = "4.3.0"
"""What the tests believe to talk to; one of them checks that the client finds out the same."""

_ONE_NODE = "moves or elects replicas, of which one node has nothing to move or elect"

LEFT_OUT = {
    "test_admin_integration.py::test_create_describe_delete_acls": "ACLs do not exist yet",
    "test_admin_integration.py::test_describe_configs_broker_resource_returns_configs": (
        "asks for Kafka's advertised.listeners; strom has advertised.host and advertised.port"
    ),
    "test_admin_integration.py::test_elect_leaders": _ONE_NODE,
    "test_admin_integration.py::test_alter_replica_log_dirs": _ONE_NODE,
    "test_admin_integration.py::test_alter_partition_reassignments": _ONE_NODE,
    "test_admin_integration.py::test_list_partition_reassignments": _ONE_NODE,
    "test_admin_integration.py::test_describe_metadata_quorum": "there is no quorum of one",
    "test_admin_integration.py::test_list_config_resources": "the request is not served yet",
    "test_sasl_integration.py": "SASL does not exist yet",
    "test_ssl_integration.py": "starts a broker of its own from a Kafka download, for TLS",
}

# The source distribution leaves out two files that its tests import.
_MISSING_FILES = {
    "test/__init__.py": "",  # without it, Python's own package of that name is found first
    "test/service.py": """\
class ExternalService:
    def __init__(self, host, port):
        pass


class SpawnedService:
    def __init__(self, *args, **kwargs):
        raise RuntimeError("these tests use a broker that runs already")
""",
}


def fetch() -> Path:
    """The folder with the unpacked source distribution, or UnavailableError."""
    unpacked = SOURCES.fetch()
    for name, text in _MISSING_FILES.items():
        if not (unpacked / name).exists():
            (unpacked / name).write_text(text)
    return unpacked


def run(
    bootstrap_servers: str,
    tests: Sequence[str] = ("test/integration",),
    *,
    seconds_per_test: int = 30,
) -> subprocess.CompletedProcess[str]:
    """Run the tests, without those left out, against a broker; gives what pytest printed."""
    unpacked = fetch()
    environment = {
        **os.environ,
        "KAFKA_URI": f"kafka://{bootstrap_servers}",
        "KAFKA_VERSION": CLAIMED_KAFKA_VERSION,
        "KAFKA_ROOT": str(unpacked),  # only has to exist
    }
    left_out = [f"--deselect=test/integration/{name}" for name in LEFT_OUT]
    plugins = ["-p", "no:strom", "-p", "no:randomly", "-p", "no:cacheprovider"]
    limits = [f"--timeout={seconds_per_test}", "--timeout-method=signal"]
    output = ["-q", "--tb=short", "--show-capture=no", "-rfE", "-W", "ignore"]
    command = [sys.executable, "-m", "pytest", *tests]
    return subprocess.run(
        [*command, *plugins, *limits, *output, *left_out],
        cwd=unpacked,
        env=environment,
        capture_output=True,
        text=True,
    )


def failed(output: str) -> list[str]:
    """The tests that failed, from what pytest printed."""
    return re.findall(r"^FAILED (\S+)", output, re.MULTILINE)


if __name__ == "__main__":
    outcome = run(*sys.argv[1:2])
    print(outcome.stdout, outcome.stderr)
    sys.exit(outcome.returncode)
