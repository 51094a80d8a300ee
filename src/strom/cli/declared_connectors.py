"""Reconciles the connectors of a worker with those that a project's strom.toml declares."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from strom.cli.companions import Companion, Companions
from strom.cli.printing import notice
from strom.cli.rest import ConnectRest
from strom.connect.declared import plan
from strom.model.errors import UserError
from strom.model.http_settings import ALLOWED_HOSTS
from strom.supervision.child_process import StartFailed

if TYPE_CHECKING:
    from strom.pipelines.project import Project

START_S = 60.0
_HOST = "127.0.0.1"


@contextmanager
def connectors_of(project: "Project", servers: str) -> Iterator[str | None]:
    """Reconcile the connectors; yields the URL of their worker, None if the project has no connectors.

    If the project names no worker (`connect.url`), one is started and stopped with the project.
    """
    settings = project.settings
    if settings.connect_url is None and not settings.connectors:
        yield None
        return
    if settings.connect_url is not None:
        reconcile(settings.name, settings.connectors, ConnectRest(settings.connect_url))
        yield settings.connect_url
        return
    companion = _worker_of(project)
    running = Companions([companion], must_start=True)
    running.start(servers)
    try:
        _wait_ready(running)
        reconcile(settings.name, settings.connectors, ConnectRest(companion.url))
        yield companion.url
    finally:
        running.stop()


def reconcile(project: str, declared: dict[str, dict[str, str]], rest: ConnectRest) -> None:
    """Create, change and remove connectors; UserError with the connector's name if one is rejected."""
    existing = {
        name: rest.call("GET", "connectors", name, "config")
        for name in rest.call("GET", "connectors")
    }
    todo = plan(project, declared, existing)
    for name, config in (*todo.create.items(), *todo.change.items()):
        try:
            rest.call("PUT", "connectors", name, "config", given=dict(config))
        except UserError as error:
            raise UserError(f"Connector {name}: {error}") from None
        notice(f"Connector {name}: {'created' if name in todo.create else 'changed'}.")
    for name in todo.remove:
        rest.call("DELETE", "connectors", name)
        notice(f"Connector {name}: removed, because strom.toml no longer declares it.")


def _worker_of(project: "Project") -> Companion:
    from strom.cli.connect_worker import require_connect

    require_connect()
    group, port = f"connect-{project.settings.name}", project.settings.connect_port
    args = ["connect", "worker", "--host", _HOST, "--port", str(port), "--group", group]
    for kind, ending in (("config", "configs"), ("offset", "offsets"), ("status", "status")):
        args += ["--set", f"{kind}.storage.topic={group}-{ending}"]
    for name, values in (
        (ALLOWED_HOSTS.name, project.settings.allowed_hosts),
        ("plugin.packages", project.settings.plugin_packages),
    ):
        args += ["--set", f"{name}={','.join(values)}"] if values else []
    hints = {"rest.port": "Choose another `port` under [connect] in strom.toml."}
    return Companion("Connect worker", tuple(args), _HOST, port, hints)


def _wait_ready(worker: Companions) -> None:
    """Wait for the child's ready line: another worker may be listening on its port."""
    try:
        worker.wait_ready(START_S)
    except StartFailed as error:
        raise UserError(str(error)) from None
