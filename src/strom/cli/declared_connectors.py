"""The connectors that a project's strom.toml declares: a worker for them, and their state."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from strom.cli.companions import Companion, Companions
from strom.cli.connect_rest import ConnectRest
from strom.cli.printing import notice
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
    """Bring connectors to the declared state; yields where their worker answers, if there is one.

    Where the project names no worker (`connect.url`), one is started and ends with the project.
    """
    settings = project.settings
    if settings.connect_url is None and not settings.connectors:
        yield None
        return
    if settings.connect_url is not None:
        bring_to_declared(settings.name, settings.connectors, ConnectRest(settings.connect_url))
        yield settings.connect_url
        return
    companion = _worker_of(project)
    running = Companions([companion])
    running.start(servers)
    try:
        _wait_ready(running)
        bring_to_declared(settings.name, settings.connectors, ConnectRest(companion.url))
        yield companion.url
    finally:
        running.stop()


def bring_to_declared(project: str, declared: dict[str, dict[str, str]], rest: ConnectRest) -> None:
    """Create, change and remove connectors; what is refused is told with the connector's name."""
    existing = {
        name: rest.ask("GET", "connectors", name, "config")
        for name in rest.ask("GET", "connectors")
    }
    todo = plan(project, declared, existing)
    for name, config in (*todo.create.items(), *todo.change.items()):
        try:
            rest.ask("PUT", "connectors", name, "config", given=dict(config))
        except UserError as error:
            raise UserError(f"Connector {name}: {error}") from None
        notice(f"Connector {name}: {'created' if name in todo.create else 'changed'}.")
    for name in todo.remove:
        rest.ask("DELETE", "connectors", name)
        notice(f"Connector {name}: removed, for strom.toml has it no more.")


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
    return Companion("Connect worker", tuple(args), _HOST, port)


def _wait_ready(worker: Companions) -> None:
    """Wait for the worker's own report: what responds at its port may be another worker."""
    try:
        worker.wait_ready(START_S)
    except StartFailed as error:
        raise UserError(str(error)) from None
