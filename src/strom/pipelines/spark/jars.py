"""The jars of Spark's Kafka and Avro connectors: downloaded once with pyspark's Ivy, and verified."""

import hashlib
import importlib.util
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from strom.model.errors import UserError

FETCH_SECONDS = 180


@dataclass(frozen=True)
class Jar:
    """Maven coordinates of a jar, and its SHA-256."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.artifact}-{self.version}.jar"


KAFKA_CONNECTOR = (
    Jar(
        "org.apache.spark",
        "spark-sql-kafka-0-10_2.13",
        "4.2.0",
        "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
    ),
    Jar(
        "org.apache.spark",
        "spark-token-provider-kafka-0-10_2.13",
        "4.0.0",
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
    ),
    Jar(
        "org.apache.kafka",
        "kafka-clients",
        "3.9.2",
        "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
    ),
    Jar(
        "org.apache.commons",
        "commons-pool2",
        "2.13.1",
        "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f",
    ),
)
# Spark does not ship spark-avro. This version works with Spark 4.2, whose own is not available.
AVRO = (
    Jar(
        "org.apache.spark",
        "spark-avro_2.13",
        "4.0.1",
        "834207b759159ceb7e367df9c0fe5998bbb547fdcdc5269dfeeba2c6803559b6",
    ),
)
ALL = (*KAFKA_CONNECTOR, *AVRO)


def cache_folder() -> Path:
    """STROM_CACHE, or `strom` in the user's cache folder."""
    named = os.environ.get("STROM_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(named) if named else Path(base) / "strom"


def connector_jars(java_home: str, folder: Path | None = None) -> list[Path]:
    """Paths of all jars, downloaded if missing; UserError if a download or a checksum fails."""
    folder = folder or cache_folder() / "jars"
    folder.mkdir(parents=True, exist_ok=True)
    for jar in ALL:
        path = folder / jar.file
        if not path.exists():
            _fetch(jar, java_home, folder)
        if hashlib.sha256(path.read_bytes()).hexdigest() != jar.sha256:
            raise UserError(f"{path} has a wrong checksum. Remove it, and start again.")
    return [folder / jar.file for jar in ALL]


def _fetch(jar: Jar, java_home: str, folder: Path) -> None:
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise UserError("Views run on Spark: pip install 'strom[pipelines]'")
    ivy = next((Path(found.origin).parent / "jars").glob("ivy-*.jar"))
    command = [f"{java_home}/bin/java", "-jar", str(ivy), "-notransitive", "-types", "jar"]
    command += ["-dependency", jar.group, jar.artifact, jar.version]
    command += ["-retrieve", str(folder / "[artifact]-[revision].[ext]")]
    try:
        subprocess.run(command, capture_output=True, timeout=FETCH_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    if not (folder / jar.file).exists():
        raise UserError(
            f"{jar.file}, which Spark needs to read topics, could not be fetched. Check the network "
            f"connection, or copy the file to {folder}."
        )
