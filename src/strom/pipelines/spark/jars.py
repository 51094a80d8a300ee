"""The jars of Spark's Kafka and Avro connectors: downloaded once with pyspark's Ivy, and verified."""

import contextlib
import hashlib
import importlib.util
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
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


def connector_jars(
    java_home: str, folder: Path | None = None, report: Callable[[str], None] = lambda text: None
) -> list[Path]:
    """Paths of all jars, downloaded if missing; UserError if a download or a checksum fails."""
    folder = folder or cache_folder() / "jars"
    folder.mkdir(parents=True, exist_ok=True)
    if missing := [jar for jar in ALL if not (folder / jar.file).exists()]:
        report(f"Fetching the {len(missing)} jars that Spark needs to read topics …")
        _fetch(missing, java_home, folder)
    for jar in ALL:
        if hashlib.sha256((folder / jar.file).read_bytes()).hexdigest() != jar.sha256:
            raise UserError(
                f"{folder / jar.file} has a wrong checksum. Remove it, and start again."
            )
    return [folder / jar.file for jar in ALL]


def _fetch(jars: Sequence[Jar], java_home: str, folder: Path) -> None:
    """Download jars with one run of Ivy, whose start takes longer than a download."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise UserError("Views run on Spark: pip install 'strom[pipelines]'")
    ivy = next((Path(found.origin).parent / "jars").glob("ivy-*.jar"))
    # Beside the final place, so that a download that is interrupted leaves no partial jar there.
    with tempfile.TemporaryDirectory(dir=folder) as fetched:
        wanted = Path(fetched, "ivy.xml")
        wanted.write_text(_ivy_module(jars), "utf-8")
        command = [f"{java_home}/bin/java", "-XX:TieredStopAtLevel=1", "-jar", str(ivy)]
        command += ["-ivy", str(wanted), "-retrieve", f"{fetched}/[artifact]-[revision].[ext]"]
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(command, capture_output=True, timeout=FETCH_SECONDS)
        for jar in jars:
            with contextlib.suppress(FileNotFoundError):
                Path(fetched, jar.file).replace(folder / jar.file)
    if failed := [jar.file for jar in jars if not (folder / jar.file).exists()]:
        raise UserError(
            f"{', '.join(failed)}: could not be fetched, but Spark needs it to read topics. Check the "
            f"network connection, or copy the files to {folder}."
        )


def _ivy_module(jars: Sequence[Jar]) -> str:
    wanted = "".join(
        f'<dependency org="{jar.group}" name="{jar.artifact}" rev="{jar.version}" transitive="false">'
        f'<artifact name="{jar.artifact}" type="jar" ext="jar"/></dependency>'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0"><info organisation="strom" module="jars"/>'
        f"<dependencies>{wanted}</dependencies></ivy-module>"
    )
