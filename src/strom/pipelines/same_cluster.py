"""Whether a project talks to the Kafka cluster that its data was computed from.

At the same address, another cluster may respond later: its topics have the same names, and other records.
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
    """Remember the cluster in the data folder; UserError if what lies there is of another one."""
    seen = kafka.cluster_id()
    if seen is None:
        return
    path = data / FILE
    with locked(path.with_suffix(".lock")):
        known = path.read_text("utf-8").strip() if path.exists() else ""
        # Without data, the one before was only tried, as with a wrong address.
        if not known or (known != seen and not _has_data(data)):
            write_atomically(path, f"{seen}\n".encode())
            return
    if known != seen:
        raise UserError(
            f"The Kafka cluster at {kafka.servers} has the id {seen}, but {data} was computed from the "
            f"cluster {known}. Name that cluster as `servers` under [kafka] in strom.toml, or another "
            f"folder as `data`. If the new cluster holds the same topics, accept it by removing {path}."
        )


def _has_data(data: Path) -> bool:
    """Whether something was computed or archived."""
    patterns = "views/*/manifest.json", "master/*/_delta_log"
    return any(next(data.glob(pattern), None) is not None for pattern in patterns)
