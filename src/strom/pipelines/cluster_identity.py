"""Verifies that a project uses the Kafka cluster that its data was computed from.

Later, another cluster may listen on the same address, with topics of the same names and other records.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from strom.model.errors import UserError
from strom.pipelines.atomic_files import write_atomically
from strom.supervision.file_lock import locked

if TYPE_CHECKING:
    from strom.pipelines.kafka_log import KafkaLog

FILE = "kafka.cluster"


def check_same_cluster(data: Path, kafka: "KafkaLog") -> None:
    """Store the cluster id in the data folder; UserError if the data is from another cluster."""
    seen = kafka.cluster_id()
    if seen is None:
        return
    path = data / FILE
    with locked(path.with_suffix(".lock")):
        known = path.read_text("utf-8").strip() if path.exists() else ""
        # Without data, the previous cluster was never read from, as after a wrong address.
        if not known or (known != seen and not _has_data(data)):
            write_atomically(path, f"{seen}\n".encode())
            return
    if known != seen:
        raise UserError(
            f"The Kafka cluster at {kafka.servers} has the id {seen}, but {data} was computed from the "
            f"cluster {known}. Set `servers` under [kafka] in strom.toml to that cluster, or `data` to "
            f"another folder. If the new cluster has the same topics, remove {path} to accept it."
        )


def _has_data(data: Path) -> bool:
    patterns = "views/*/manifest.json", "master/*/_delta_log"
    return any(next(data.glob(pattern), None) is not None for pattern in patterns)
