"""The management interface over HTTP, in the broker's event loop."""

import asyncio
import json
from typing import Any

from strom.broker.queues.declaring import Declarations
from strom.broker.queues.hub import QueueBroker
from strom.http.application import (
    ROUTE,
    Asgi,
    CountRequest,
    HttpApplication,
    Scope,
    Scrape,
    Send,
    respond,
)
from strom.http.authentication import BasicLogin
from strom.http.errors import ErrorFormat, HttpError, phrase_of
from strom.http.guard import Guard
from strom.http.json_body import Receive, read_body
from strom.http.paths import split_path
from strom.http.server import HttpListener, HttpServer
from strom.model.broker_settings import BrokerSettings
from strom.queues.errors import QueueError, Reason
from strom.server.loopback import may_log_in
from strom.server.management.calls import ManagementCalls, ManagementRequest, route_of
from strom.server.process_limits import ConnectionSlots
from strom.wire.amqp.protocol import AmqpError

SLICE = 200
"""How many elements of a list are encoded before the event loop serves others."""
_HEADERS = {"Cache-Control": "no-cache"}
_ENCODED_HEADERS = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]


def make_server(
    queues: QueueBroker,
    declarations: Declarations,
    settings: BrokerSettings,
    slots: ConnectionSlots,
    metrics: Scrape | None = None,
    count: CountRequest = lambda route, method, status, seconds: None,
) -> HttpServer:
    """Bind the port; UserError if it is in use."""
    login = BasicLogin(settings.amqp_user, settings.amqp_password, "strom queues", may_log_in)
    app = HttpApplication(
        _make_endpoint(ManagementCalls(queues, declarations, settings)),
        guard=Guard.create(
            settings.host, settings.http_allowed_hosts, advertised=settings.advertised_host
        ),
        errors=ERRORS,
        authenticate=login,
        metrics=metrics,
        count=count,
    )
    listener = HttpListener(
        settings.host,
        max(0, settings.amqp_management_port),
        interface="The management interface of queues",
        setting="amqp.management.port",
    )
    return HttpServer(app, listener, slots=slots)


def _translate(error: Exception) -> HttpError | None:
    if isinstance(error, QueueError):
        return HttpError(404 if error.reason is Reason.NOT_FOUND else 400, str(error))
    return HttpError(400, str(error)) if isinstance(error, AmqpError) else None


ERRORS = ErrorFormat(
    "The management interface of queues",
    lambda error: {"error": phrase_of(error.status), "reason": error.message},
    _translate,
    headers=_HEADERS,
    separators=(", ", ": "),
)


def _make_endpoint(calls: ManagementCalls) -> Asgi:
    async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
        path = split_path(scope["path"])
        scope[ROUTE] = route_of(path)
        request = ManagementRequest(scope["method"], path, await read_body(receive))
        status, value = await calls.handle(request)
        written = b"" if value is None else await _to_json(value)
        await respond(send, status, written, headers=_ENCODED_HEADERS)

    return endpoint


async def _to_json(value: Any) -> bytes:
    if not isinstance(value, list):
        return json.dumps(value, default=str).encode()
    parts = []
    for number, one in enumerate(value):
        if number % SLICE == SLICE - 1:
            await asyncio.sleep(0)
        parts.append(json.dumps(one, default=str))
    return f"[{', '.join(parts)}]".encode()
