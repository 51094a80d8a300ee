"""The REST interface of a worker, in its own thread."""

from strom.connect.runtime.commands import Commands
from strom.connect.runtime.measurements import make_worker_metrics
from strom.connect.runtime.rest import connectors, plugins
from strom.connect.runtime.rest.responses import make_error_format, make_route
from strom.connect.runtime.settings import WorkerSettings
from strom.connect.runtime.worker import ConnectWorker, split_texts
from strom.http.application import HttpApplication
from strom.http.guard import Guard
from strom.http.routing import make_router
from strom.http.server import HttpListener, HttpServer, HttpThread
from strom.metrics.http import HttpStats


def make_app(worker: ConnectWorker) -> HttpApplication:
    """Make the interface of a worker, for any ASGI server."""
    settings, commands = worker.settings, Commands(worker)
    requests = HttpStats("connect")

    def not_ready() -> str | None:
        return None if worker.membership.holds_lease() else "The worker has not joined its group."

    return HttpApplication(
        make_router([make_route(commands, *one) for one in (*connectors.ROUTES, *plugins.ROUTES)]),
        guard=Guard.create(
            settings.host, settings.allowed_hosts, advertised=settings.advertised_host
        ),
        errors=make_error_format(worker.secrets.hide),
        not_ready=not_ready,
        metrics=make_worker_metrics(worker, requests).scrape,
        count=requests.count,
    )


class RunningWorker:
    """A worker with its REST interface, as `strom connect worker` runs it."""

    def __init__(self, texts: dict[str, str]) -> None:
        settings = WorkerSettings.read(split_texts(texts)[0])
        # First, because the worker's id contains the port.
        self._listener = HttpListener(
            settings.host,
            settings.port,
            interface="Connect's REST interface",
            setting="rest.port",
        )
        try:
            self.worker = ConnectWorker(texts, port=self._listener.port)
            server = HttpServer(make_app(self.worker), self._listener)
        except BaseException:
            self._listener.close()
            raise
        self._http = HttpThread(server, "connect-rest")

    @property
    def port(self) -> int:
        return self._listener.port

    @property
    def url(self) -> str:
        """The address of the REST interface, by the advertised host."""
        return f"http://{self.worker.worker_id}"

    def start(self) -> "RunningWorker":
        try:
            self.worker.start()
        except BaseException:
            self._listener.close()
            raise
        try:
            self._http.start()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        self._http.stop()
        self.worker.stop()

    def __enter__(self) -> "RunningWorker":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
