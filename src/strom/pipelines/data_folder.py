"""Two small files that identify a project's data folder.

Processes that read the same random token see the same folder. Executors of a cluster compare it before
they write: on another machine, the same path may not exist or may belong to another project. The other
file has the id of the Kafka cluster that the data was computed from: later, another cluster may listen
on the same address, with topics of the same names and other records.
"""

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from strom.model.errors import UserError
from strom.supervision.durable_files import write_atomically
from strom.supervision.file_lock import locked

if TYPE_CHECKING:
    from strom.pipelines.kafka_log import KafkaLog

TOKEN_FILE, CLUSTER_FILE = "folder.token", "kafka.cluster"
_TOKEN_LENGTH = 32


def read_or_create_token(data: Path) -> str:
    """The token of a data folder, created if missing; concurrent processes get the same token."""
    path = data / TOKEN_FILE
    with locked(path.with_suffix(".lock")):
        known = _read_id(path)
        if len(known) == _TOKEN_LENGTH:
            return known
        token = uuid.uuid4().hex
        write_atomically(path, f"{token}\n".encode())
        return token


def check_same_cluster(data: Path, kafka: "KafkaLog") -> None:
    """Store the cluster id in the data folder; UserError if the data is from another cluster."""
    seen = kafka.cluster_id()
    if seen is None:
        return
    path = data / CLUSTER_FILE
    with locked(path.with_suffix(".lock")):
        known = _read_id(path)
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


def _read_id(path: Path) -> str:
    return path.read_text("utf-8").strip() if path.exists() else ""
