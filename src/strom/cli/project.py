"""What the commands of a project have in common: its folder, its broker, its Spark session."""

import contextlib
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strom.cli.options import require_packages
from strom.cli.printing import notice
from strom.model.errors import UserError
from strom.supervision.child_process import StartFailed
from strom.supervision.file_lock import LockHeld, held, locked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from strom.cli.embedded_broker import EmbeddedBroker
    from strom.pipelines.kafka_log import KafkaLog
    from strom.pipelines.project import Project

_PACKAGES = ("pyspark", "duckdb", "deltalake", "pyarrow", "sqlglot", "datasketches", "starlette")


def project_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --project; it gets the folder as `folder`."""
    return click.option(
        "-p",
        "--project",
        "folder",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path(),
        help="The project's folder. [default: the current folder]",
    )(command)


def opened(folder: Path) -> "Project":
    """The project of a folder."""
    require_pipelines()
    from strom.pipelines.project import load_project

    return load_project(folder)


def opened_to_compute(folder: Path) -> "Project":
    """The project of a folder, with its tables and the schemas of its streams from a registry."""
    project = opened(folder)
    from strom.pipelines.project import check_folder
    from strom.pipelines.schemas import with_schemas
    from strom.pipelines.views.static_tables import sweep_tables, with_tables

    check_folder(project.data)
    sweep_tables(project)
    return with_tables(with_schemas(project))


def require_pipelines() -> None:
    """Raise UserError if what views need is not installed."""
    require_packages("Views need", _PACKAGES, extra="pipelines")


def check_views_can_run() -> None:
    """Raise UserError if packages, Java or jars are missing; downloads the jars if possible."""
    require_pipelines()
    from strom.pipelines.spark.jars import cache_folder, connector_jars
    from strom.pipelines.spark.java import java_home

    connector_jars(java_home(cache_folder()), report=notice)


def spark_of(project: "Project") -> "SparkSession":
    """Start a Spark session with the project's settings."""
    from strom.pipelines.spark.session import start_session

    notice(f"Starting Spark at {project.settings.master} …")
    return start_session(project.settings.master, project.settings.spark)


@contextlib.contextmanager
def alone_in(project: "Project") -> Iterator[None]:
    """Hold the project's lock; UserError if another process is running the project."""
    with contextlib.ExitStack() as holding:
        try:
            holding.enter_context(held(project.data / "run.lock"))
        except LockHeld as error:
            raise UserError(
                f"The project in {project.folder} is already running, in {error.holder}. "
                "Query its views with: strom query"
            ) from None
        yield


@contextlib.contextmanager
def log_of(project: "Project") -> Iterator["KafkaLog"]:
    """The project's Kafka: the cluster that it names, or its embedded broker, which is kept running.

    UserError if another broker listens on its port, or if the data was computed from another cluster.
    """
    from strom.cli.embedded_broker import EmbeddedBroker
    from strom.pipelines.data_folder import check_same_cluster
    from strom.pipelines.kafka_log import KafkaLog

    kafka = KafkaLog(project.servers, project.settings.kafka)
    with contextlib.ExitStack() as open_, contextlib.closing(kafka):
        if project.settings.servers is None:
            broker = EmbeddedBroker(_broker_folder(project), project.settings.port)
            open_.callback(broker.stop)
            # Of two commands that start at once, the second uses the broker of the first.
            with locked(project.data / "broker.lock"):
                is_attached = broker.is_running
                if not is_attached:
                    _start(broker, project, kafka)
            broker.keep_running()
            if is_attached:
                _check_own_broker(project, kafka)
        kafka.topics()
        check_same_cluster(project.data, kafka)
        yield kafka


def _start(broker: "EmbeddedBroker", project: "Project", kafka: "KafkaLog") -> None:
    try:
        broker.start()
    except StartFailed as error:
        if _is_port_in_use(project.settings.port):
            _check_own_broker(project, kafka)
        raise UserError(str(error)) from None


def _is_port_in_use(port: int) -> bool:
    """Whether any program accepts connections on a port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _broker_folder(project: "Project") -> Path:
    return project.data / "broker"


def _check_own_broker(project: "Project", kafka: "KafkaLog") -> None:
    """Raise UserError if the broker on the project's port is not the one of its data folder."""
    port = project.settings.port
    remedy = "Choose another `port` under [kafka] in strom.toml"
    try:
        seen = kafka.cluster_id()
    except UserError:
        if not _is_port_in_use(port):
            raise UserError(
                f"The broker of this project runs, but not at port {port}: the command that started it "
                "had another `port`. Stop that command, or set its port under [kafka] in strom.toml."
            ) from None
        raise UserError(
            f"Port {port} is in use by a program that does not respond as a Kafka broker. {remedy}."
        ) from None
    if seen is None or seen != cluster_id_in(_broker_folder(project)):
        raise UserError(
            f"Port {port} is in use by a Kafka broker that is not this project's own: its cluster id is "
            f"{seen or 'unknown'}. {remedy}, or attach to that broker with "
            f'`servers = "127.0.0.1:{port}"` there.'
        )


def cluster_id_in(folder: Path) -> str | None:
    """The cluster id of a broker's data folder; None if no broker has used it."""
    from strom.storage.directory_files import IDENTITY_FILE

    try:
        identity = json.loads((folder / IDENTITY_FILE).read_text("utf-8"))
    except FileNotFoundError:
        return None
    return str(identity["cluster_id"])
