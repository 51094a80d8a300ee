"""The calls of the management interface, by path and method, and what they show.

They are RabbitMQ's: /api/overview, vhosts, exchanges, queues, bindings, definitions; publishing to an
exchange and getting from a queue.
"""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeAlias

import strom
from strom.broker.queues.declaring import Declarations
from strom.broker.queues.hub import QueueBroker
from strom.broker.queues.message_properties import make_message
from strom.http.errors import HttpError
from strom.http.json_thread import load_json_object
from strom.model.broker_settings import BrokerSettings
from strom.queues.definitions import (
    EXCHANGE,
    QUEUE,
    Binding,
    ExchangeDefinition,
    QueueDefinition,
    VirtualHostDefinition,
)
from strom.queues.queue import GetResult, Queue
from strom.queues.virtual_host import DEFAULT, Exchange, VirtualHost
from strom.wire.amqp.content import BasicProperties, decode_properties, encode_properties


def exchange_view(exchange: Exchange) -> dict[str, Any]:
    definition = exchange.definition
    return vars(definition) | {"arguments": dict(definition.arguments)}


def queue_view(queue: Queue) -> dict[str, Any]:
    """One queue with its message counts."""
    definition = queue.definition
    return {
        "name": definition.name,
        "vhost": definition.vhost,
        "type": definition.arguments.get("x-queue-type", "classic"),
        "durable": definition.durable,
        "auto_delete": definition.auto_delete,
        "exclusive": definition.exclusive,
        "arguments": dict(definition.arguments),
        "messages": queue.waiting + len(queue.unacked),
        "messages_ready": queue.waiting,
        "messages_unacknowledged": len(queue.unacked),
        "consumers": len(queue.consumers),
        "state": "running",
    }


def binding_view(binding: Binding) -> dict[str, Any]:
    return {
        "source": binding.source,
        "vhost": binding.vhost,
        "destination": binding.destination,
        "destination_type": binding.kind,
        "routing_key": binding.routing_key,
        "arguments": dict(binding.arguments),
        "properties_key": binding.routing_key or "~",
    }


def message_view(got: GetResult) -> dict[str, Any]:
    """One message; a body that is not UTF-8 is encoded in base64."""
    message = got.message
    try:
        payload, encoding = message.body.decode(), "string"
    except UnicodeDecodeError:
        payload, encoding = base64.b64encode(message.body).decode(), "base64"
    properties = decode_properties(message.properties)
    return {
        "payload_bytes": len(message.body),
        "redelivered": got.redelivered,
        "exchange": message.exchange,
        "routing_key": message.routing_key,
        "message_count": got.left,
        "properties": {
            name: value for name, value in properties._asdict().items() if value is not None
        },
        "payload": payload,
        "payload_encoding": encoding,
    }


def properties_from(given: dict[str, Any]) -> BasicProperties:
    """Properties from JSON; ValueError for an unknown name."""
    unknown = set(given) - set(BasicProperties._fields)
    if unknown:
        raise ValueError(f"unknown property {sorted(unknown)[0]!r}")
    return BasicProperties(**given)


MAX_GET = 10_000
MAX_GET_BYTES = 16 * 1024 * 1024
"""The size at which a response gets no more messages, even if more were requested."""
ACK_MODES = ("ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false")
OK, CREATED, NO_CONTENT = HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.NO_CONTENT
_RESOURCES = frozenset(
    f"api/{one}"
    for one in ("overview", "whoami", "vhosts", "exchanges", "queues", "bindings", "definitions")
)
_KIND_OF_LETTER = {"q": QUEUE, "e": EXCHANGE}


Reply: TypeAlias = tuple[HTTPStatus, Any]


@dataclass(frozen=True)
class ManagementRequest:
    """A request with its complete body."""

    method: str
    path: tuple[str, ...]
    """Its segments, decoded: `/api/queues/%2F/a` is api, queues, /, a."""
    body: bytes

    async def json(self) -> dict[str, Any]:
        """Return the body; HttpError if it is not a JSON object."""
        return await load_json_object(self.body or b"{}")


class ManagementCalls:
    """Handles requests of clients that have logged in."""

    def __init__(
        self, queues: QueueBroker, declarations: Declarations, settings: BrokerSettings
    ) -> None:
        self._queues = queues
        self._declarations = declarations
        self._settings = settings

    async def handle(self, request: ManagementRequest) -> Reply:
        """Return the status and the JSON value; HttpError, AmqpError or QueueError if it fails."""
        match request.method, request.path:
            case "GET", ("api", "overview"):
                return OK, self._overview()
            case "GET", ("api", "whoami"):
                return OK, {"name": self._settings.amqp_user, "tags": ["administrator"]}
            case _, ("api", "vhosts", *rest):
                return await self._vhosts(request, tuple(rest))
            case _, ("api", "exchanges", *rest):
                return await self._exchanges(request, tuple(rest))
            case _, ("api", "queues", *rest):
                return await self._queue_calls(request, tuple(rest))
            case _, ("api", "bindings", *rest):
                return await self._bindings(request, tuple(rest))
            case _, ("api", "definitions", *rest):
                return await self._definitions(request, tuple(rest))
        raise _no_such_call()

    # --- the whole -----------------------------------------------------------------------------

    def _overview(self) -> dict[str, Any]:
        queues = [queue for vhost in self._vhosts_of(()) for queue in vhost.queues.values()]
        ready = sum(queue.waiting for queue in queues)
        unacked = sum(len(queue.unacked) for queue in queues)
        return {
            "product_name": "strom",
            "product_version": strom.__version__,
            "management_version": strom.__version__,
            "cluster_name": f"strom@{self._settings.host}",
            "queue_totals": {
                "messages": ready + unacked,
                "messages_ready": ready,
                "messages_unacknowledged": unacked,
            },
            "object_totals": {
                "queues": len(queues),
                "exchanges": sum(len(vhost.exchanges) for vhost in self._vhosts_of(())),
                "consumers": sum(len(queue.consumers) for queue in queues),
            },
        }

    async def _vhosts(self, request: ManagementRequest, path: tuple[str, ...]) -> Reply:
        match request.method, path:
            case "GET", ():
                return OK, [{"name": name} for name in sorted(self._queues.vhosts)]
            case "GET", (name,):
                return OK, {"name": self._vhost(name).name}
            case "PUT", (name,):
                await self._queues.topology.write([VirtualHostDefinition(name)])
                self._queues.add_vhost(name)
                return CREATED, None
        raise _no_such_call()

    # --- exchanges -----------------------------------------------------------------------------

    async def _exchanges(self, request: ManagementRequest, path: tuple[str, ...]) -> Reply:
        match request.method, path:
            case "GET", () | (_,):
                vhosts = self._vhosts_of(path)
                found = [one for vhost in vhosts for one in vhost.exchanges.values()]
                return OK, [exchange_view(exchange) for exchange in found]
            case "GET", (vhost, name):
                return OK, exchange_view(self._vhost(vhost).exchange(_named(name)))
            case "PUT", (vhost, name):
                await self._declare_exchange(vhost, name, await request.json())
                return CREATED, None
            case "DELETE", (vhost, name):
                where = self._vhost(vhost)
                where.exchange(name)
                await self._declarations.delete_exchange(where, name, if_unused=False)
                return NO_CONTENT, None
            case "POST", (vhost, name, "publish"):
                given = await request.json()
                return OK, {"routed": self._publish(vhost, _named(name), given)}
        raise _no_such_call()

    async def _declare_exchange(self, vhost: str, name: str, given: dict[str, Any]) -> None:
        kind = given.get("type", "direct")
        if not isinstance(kind, str):
            raise HttpError(HTTPStatus.BAD_REQUEST, "type must be a string")
        wanted = ExchangeDefinition(
            vhost,
            name,
            kind,
            bool(given.get("durable", True)),
            bool(given.get("auto_delete", False)),
            bool(given.get("internal", False)),
            _table(given),
        )
        await self._declarations.declare_exchange(self._vhost(vhost), wanted, passive=False)

    def _publish(self, vhost: str, exchange: str, given: dict[str, Any]) -> bool:
        try:
            properties = encode_properties(properties_from(given.get("properties") or {}))
            payload = given["payload"]
            body = (
                base64.b64decode(payload, validate=True)
                if given.get("payload_encoding") == "base64"
                else payload.encode()
            )
            key = given["routing_key"]
            key.encode()
        except (KeyError, ValueError, AttributeError, TypeError) as error:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"invalid message: {error}") from None
        where = self._vhost(vhost)
        where.exchange(exchange)
        message = make_message(exchange, key, properties, body, self._queues.clock.now_ms())
        return self._queues.publish(where, message, None)

    # --- queues --------------------------------------------------------------------------------

    async def _queue_calls(self, request: ManagementRequest, path: tuple[str, ...]) -> Reply:
        match request.method, path:
            case "GET", () | (_,):
                vhosts = self._vhosts_of(path)
                found = [one for vhost in vhosts for one in vhost.queues.values()]
                return OK, [queue_view(queue) for queue in found]
            case "GET", (vhost, name):
                return OK, queue_view(self._queue(vhost, name))
            case "GET", (vhost, name, "bindings"):
                self._queue(vhost, name)
                return OK, [
                    binding_view(binding)
                    for binding in self._vhost(vhost).bindings.values()
                    if binding.kind == QUEUE and binding.destination == name
                ]
            case "PUT", (vhost, name):
                await self._declare_queue(vhost, name, await request.json())
                return CREATED, None
            case "DELETE", (vhost, name):
                queue = self._queue(vhost, name)
                await self._declarations.delete_queue(self._vhost(vhost), queue)
                return NO_CONTENT, None
            case "DELETE", (vhost, name, "contents"):
                self._queue(vhost, name).purge()
                return NO_CONTENT, None
            case "POST", (vhost, name, "get"):
                given = await request.json()  # first: the queue may be deleted meanwhile
                return OK, self._get(self._queue(vhost, name), given)
        raise _no_such_call()

    async def _declare_queue(self, vhost: str, name: str, given: dict[str, Any]) -> None:
        wanted = QueueDefinition(
            vhost,
            name,
            durable=bool(given.get("durable", True)),
            auto_delete=bool(given.get("auto_delete", False)),
            arguments=_table(given),
        )
        await self._declarations.declare_queue(self._vhost(vhost), wanted, self, passive=False)

    def _get(self, queue: Queue, given: dict[str, Any]) -> list[dict[str, Any]]:
        count = given.get("count", 1)
        if not isinstance(count, int) or not 0 <= count <= MAX_GET:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"count must be between 0 and {MAX_GET}")
        mode = given.get("ackmode", ACK_MODES[0])
        if mode not in ACK_MODES:  # before any message is taken
            raise HttpError(
                HTTPStatus.BAD_REQUEST, f"ackmode must be one of {', '.join(ACK_MODES)}"
            )
        now_ms = self._queues.clock.now_ms()
        found: list[GetResult] = []
        size = 0
        while len(found) < count and size < MAX_GET_BYTES:
            got = queue.get(now_ms, no_ack=False)
            if got is None:
                break
            found.append(got)
            size += len(got.message.body)
        positions = [got.position for got in found]
        if mode.endswith("requeue_true"):
            queue.requeue(positions)
            queue.serve(now_ms)
        else:
            for position in positions:
                (queue.reject if mode.startswith("reject") else queue.acknowledge)(position)
        return [message_view(got) for got in found]

    # --- bindings ------------------------------------------------------------------------------

    async def _bindings(self, request: ManagementRequest, path: tuple[str, ...]) -> Reply:
        match request.method, path:
            case "GET", () | (_,):
                vhosts = self._vhosts_of(path)
                found = [one for vhost in vhosts for one in vhost.bindings.values()]
                return OK, [binding_view(binding) for binding in found]
            case "GET", (vhost, "e", source, "q" | "e" as letter, destination):
                kind = _KIND_OF_LETTER[letter]
                return OK, [
                    binding_view(one)
                    for one in self._vhost(vhost).bindings.values()
                    if (one.source, one.kind, one.destination) == (source, kind, destination)
                ]
            case "POST", (vhost, "e", source, "q" | "e" as letter, destination):
                given = await request.json()
                key = str(given.get("routing_key", ""))
                binding = Binding(
                    vhost, source, _KIND_OF_LETTER[letter], destination, key, _table(given)
                )
                await self._declarations.bind(self._vhost(vhost), binding)
                return CREATED, None
            case "DELETE", (vhost, "e", source, "q" | "e" as letter, destination, key):
                await self._unbind(vhost, source, _KIND_OF_LETTER[letter], destination, key)
                return NO_CONTENT, None
        raise _no_such_call()

    async def _unbind(self, vhost: str, source: str, kind: str, destination: str, key: str) -> None:
        where = self._vhost(vhost)
        for binding in list(where.bindings.values()):
            here = (binding.source, binding.kind, binding.destination)
            if here == (source, kind, destination) and (binding.routing_key or "~") == key:
                await self._declarations.unbind(where, binding)
                return
        raise HttpError(HTTPStatus.NOT_FOUND, "binding not found")

    # --- definitions ---------------------------------------------------------------------------

    async def _definitions(self, request: ManagementRequest, path: tuple[str, ...]) -> Reply:
        match request.method, path:
            case "GET", () | (_,):
                return OK, self._export(self._vhosts_of(path))
            case "POST", () | (_,):
                await self._import(await request.json(), path[0] if path else None)
                return NO_CONTENT, None
        raise _no_such_call()

    def _export(self, vhosts: Iterable[VirtualHost]) -> dict[str, Any]:
        vhosts = list(vhosts)
        names = ("name", "vhost", "durable", "auto_delete", "arguments")
        queues = [
            {name: queue_view(queue)[name] for name in names}
            for vhost in vhosts
            for queue in vhost.queues.values()
            if not queue.definition.exclusive
        ]
        exchanges = [
            exchange_view(exchange)
            for vhost in vhosts
            for exchange in vhost.exchanges.values()
            if exchange.name != DEFAULT and not exchange.name.startswith("amq.")
        ]
        bindings = [binding_view(one) for vhost in vhosts for one in vhost.bindings.values()]
        return {
            "product_name": "strom",
            "product_version": strom.__version__,
            "vhosts": [{"name": vhost.name} for vhost in vhosts],
            "exchanges": exchanges,
            "queues": queues,
            "bindings": [
                {name: value for name, value in one.items() if name != "properties_key"}
                for one in bindings
            ],
        }

    async def _import(self, given: dict[str, Any], vhost: str | None) -> None:
        """Declare all definitions; what exists must be equivalent."""
        try:
            for one in given.get("vhosts", []):
                await self._queues.topology.write([VirtualHostDefinition(one["name"])])
                self._queues.add_vhost(one["name"])
            for one in given.get("exchanges", []):
                await self._declare_exchange(vhost or one["vhost"], one["name"], one)
            for one in given.get("queues", []):
                await self._declare_queue(vhost or one["vhost"], one["name"], one)
            for one in given.get("bindings", []):
                binding = Binding(
                    vhost or one["vhost"],
                    one["source"],
                    one["destination_type"],
                    one["destination"],
                    one.get("routing_key", ""),
                    _table(one),
                )
                await self._declarations.bind(self._vhost(binding.vhost), binding)
        except (KeyError, TypeError) as error:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"incomplete definitions: {error}") from None

    # --- looking up ----------------------------------------------------------------------------

    def _vhosts_of(self, path: tuple[str, ...]) -> list[VirtualHost]:
        return [self._vhost(path[0])] if path else list(self._queues.vhosts.values())

    def _vhost(self, name: str) -> VirtualHost:
        vhost = self._queues.vhosts.get(name)
        if vhost is None:
            raise HttpError(HTTPStatus.NOT_FOUND, f"virtual host {name!r} not found")
        return vhost

    def _queue(self, vhost: str, name: str) -> Queue:
        return self._vhost(vhost).queue(name)


def route_of(path: tuple[str, ...]) -> str | None:
    """The resource of a path, for metrics: without the names of queues and the like."""
    resource = "/".join(path[:2])
    return f"/{resource}" if resource in _RESOURCES else None


def _no_such_call() -> HttpError:
    return HttpError(HTTPStatus.NOT_FOUND, "no such path or method")


def _named(name: str) -> str:
    """Map `amq.default`, the default exchange's name in paths, to its empty name, as in RabbitMQ."""
    return DEFAULT if name == "amq.default" else name


def _table(given: dict[str, Any]) -> dict[str, Any]:
    arguments = given.get("arguments") or {}
    if not isinstance(arguments, dict):
        raise HttpError(HTTPStatus.BAD_REQUEST, "arguments must be an object")
    return arguments
