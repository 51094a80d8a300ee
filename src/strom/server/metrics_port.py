"""The port for metrics and health checks, on the event loop of the node."""

from strom.http.application import HttpApplication
from strom.http.errors import ErrorFormat
from strom.http.guard import Guard
from strom.http.server import HttpListener, HttpServer
from strom.metrics.exposition import MetricsRegistry
from strom.metrics.http import HttpStats
from strom.model.broker_settings import BrokerSettings
from strom.model.http_settings import HttpLimits
from strom.server.process_limits import METRICS_CONNECTIONS

ERRORS = ErrorFormat("The metrics port", lambda error: {"error": error.message})


def make_metrics_server(
    metrics: MetricsRegistry, settings: BrokerSettings, requests: HttpStats
) -> HttpServer:
    """Bind the port; UserError if it is in use."""
    app = HttpApplication(
        guard=Guard.create(
            settings.host, settings.http_allowed_hosts, advertised=settings.advertised_host
        ),
        errors=ERRORS,
        metrics=metrics.scrape,
        count=requests.count,
    )
    listener = HttpListener(
        settings.host,
        max(0, settings.metrics_port),
        interface=ERRORS.interface,
        setting="metrics.port",
    )
    return HttpServer(app, listener, limits=HttpLimits(connections=METRICS_CONNECTIONS))
