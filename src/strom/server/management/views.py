"""Exchanges, queues, bindings and messages as RabbitMQ's management interface shows them."""

import base64
from typing import Any

from strom.queues.definitions import Binding
from strom.queues.queue import GetResult, Queue
from strom.queues.virtual_host import Exchange
from strom.wire.amqp.content import BasicProperties, decode_properties


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
