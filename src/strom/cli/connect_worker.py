"""`strom connect worker`: run a Connect worker on any Kafka."""

import gc
import logging
import os
import sys
import threading
from pathlib import Path
from typing import Any

import click

import strom
from strom.cli.connection import CliConnection, connection_options
from strom.cli.options import (
    EXISTING_FILE,
    assignments_option,
    host_option,
    lifeline_option,
    port_option,
    ready_json_option,
    require_packages,
)
from strom.cli.printing import print_json, print_ready
from strom.client.client_properties import parse_assignment, parse_properties
from strom.http.server import set_on_signal
from strom.supervision.lifeline import end_with_parent
from strom.supervision.log_lines import LINE_FORMAT_WITH_THREAD, log_to_stderr

DEFAULT_PORT = 8083
_PACKAGES = ("starlette", "uvicorn")


@click.command()
@connection_options
@host_option
@port_option("--port", DEFAULT_PORT, "The port of the REST interface; 0 for a free one.")
@click.option("--group", help="The group of the worker's cluster. [default: connect-cluster]")
@click.option(
    "--config", type=EXISTING_FILE, help="A file of worker properties, as for Kafka Connect."
)
@assignments_option(
    "--set",
    "assignments",
    doc="Any worker setting, as in offset.flush.interval.ms=1000; may be given several times.",
)
@ready_json_option
@click.option("-v", "--verbose", is_flag=True, help="Log at level INFO.")
@lifeline_option
def worker(
    connection: CliConnection,
    host: str,
    port: int,
    group: str | None,
    config: Path | None,
    assignments: tuple[str, ...],
    as_json: bool,
    verbose: bool,
    lifeline: bool,
) -> None:
    """Run a worker: it runs connectors and serves Kafka Connect's REST interface.

    Workers of the same group, on any machine, form a cluster and divide the tasks. Ctrl-C and
    SIGTERM stop it cleanly.
    """
    require_connect()
    _forbid_imports_from_working_directory()
    log_to_stderr(logging.INFO if verbose else logging.WARNING, LINE_FORMAT_WITH_THREAD)
    given = dict(_known(parse_properties(config.read_text("utf-8")))) if config else {}
    texts: dict[str, str] = {
        **given,
        **connection.settings.properties,
        "bootstrap.servers": connection.servers,
        "rest.host": host,
        "rest.port": str(port),
        **dict(map(parse_assignment, assignments)),
    }
    if group:
        texts["group.id"] = group
    connection.check_reachable()
    _run(texts, as_json=as_json, lifeline=lifeline)
    if not as_json:
        click.echo("Stopped.")


def _run(texts: dict[str, str], *, as_json: bool, lifeline: bool) -> None:
    from strom.connect.runtime.rest.server import RunningWorker

    stopping = threading.Event()
    if lifeline:
        end_with_parent(stopping.set)
    set_on_signal(stopping)
    with RunningWorker(texts) as running:
        _announce(running, as_json=as_json)
        _collect_garbage_rarely()
        while not stopping.wait(3600):
            pass


def _forbid_imports_from_working_directory() -> None:
    """Remove the working directory, which `python -m strom` puts first into the import path.

    A file that a connector writes there could shadow any module that is imported later.
    """
    if not sys.flags.safe_path and sys.path[0] in ("", os.getcwd()):
        del sys.path[0]


def _collect_garbage_rarely() -> None:
    """Run the cyclic garbage collector less often.

    Thousands of records are alive at once, none of them in a cycle. With Python's default thresholds,
    traversing them takes a third of a sink's time.
    """
    gc.freeze()
    gc.set_threshold(200_000, 50, 50)


def _announce(running: Any, *, as_json: bool) -> None:
    settings = running.worker.settings
    if as_json:
        print_json(
            {
                "connect_url": running.url,
                "bootstrap_servers": settings.bootstrap_servers,
                "group": settings.group_id,
            }
        )
        return
    address = "" if running.url.endswith(f":{DEFAULT_PORT}") else f" --url {running.url}"
    lines = "lines connector.class=FileStreamSource file=$PWD/in.txt topic=lines"
    print_ready(
        f"strom {strom.__version__} Connect worker is ready",
        {"REST": running.url, "Kafka": settings.bootstrap_servers, "group": settings.group_id},
        [f"strom connect {one}{address}" for one in ("plugins", f"add {lines}", "list")],
    )


def require_connect() -> None:
    """Raise UserError if what a worker needs is not installed."""
    require_packages("Connect needs", _PACKAGES, extra="connect")


def _known(properties: dict[str, str]) -> dict[str, str]:
    """The properties of a Kafka Connect worker without those that only Java uses."""
    java_only = (
        "plugin.path",
        "plugin.discovery",
        "listeners",
        "rest.extension",
        "config.providers",
        "internal.",
    )
    replication = "storage.replication.factor"
    kept = {}
    for name, text in properties.items():
        if name.endswith(replication):
            kept[replication] = text
        elif not name.startswith(java_only) and name != "bootstrap.servers":
            kept[name] = text
    return kept
