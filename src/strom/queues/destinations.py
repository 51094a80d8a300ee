"""The destinations of a message, found and checked before anything is published.

The headers CC and BCC add routing keys (sender-selected distribution). BCC is removed before delivery,
so that consumers do not see it.
"""

from collections.abc import Collection
from typing import NamedTuple

from strom.model.tables import Table
from strom.queues.delays import DELAY, delay_of
from strom.queues.errors import precondition_failed
from strom.queues.message import Message
from strom.queues.queue import Queue
from strom.queues.virtual_host import Exchange, VirtualHost

COPIES = "CC"
BLIND_COPIES = "BCC"


class Destinations(NamedTuple):
    """A message as it is delivered, and its destinations."""

    message: Message
    is_delayed: bool = False
    """Whether it is delayed: then it is routed when it is due."""
    queues: Collection[Queue] = ()
    feeding: tuple[Exchange, ...] = ()
    """The exchanges it passes that feed a topic."""


def find_destinations(vhost: VirtualHost, message: Message) -> Destinations:
    """Route a message; raise NOT_FOUND or PRECONDITION_FAILED if it is invalid."""
    headers = message.headers
    if headers is not None and DELAY in headers and delay_of(headers):
        vhost.exchange(message.exchange)
        return Destinations(message, is_delayed=True)
    queues: Collection[Queue]
    if headers is not None and (COPIES in headers or BLIND_COPIES in headers):
        message, queues = _route_copies(vhost, message, headers)
    else:
        queues = vhost.route(message.exchange, message.routing_key, headers)
    feeding: tuple[Exchange, ...] = ()
    if vhost.has_feeds:
        passed = vhost.exchanges_passed(message.exchange, message.routing_key, headers)
        feeding = tuple(exchange for exchange in passed if exchange.to_topic is not None)
    return Destinations(message, queues=queues, feeding=feeding)


def _route_copies(
    vhost: VirtualHost, message: Message, headers: Table
) -> tuple[Message, Collection[Queue]]:
    """Route a message with the headers CC or BCC."""
    found: dict[Queue, None] = {}
    for key in (message.routing_key, *_copied_keys(headers)):
        found.update(dict.fromkeys(vhost.route(message.exchange, key, headers)))
    if BLIND_COPIES in headers:
        message = message.with_properties(message.parsed.changed({}, without=(BLIND_COPIES,)))
    return message, tuple(found)


def _copied_keys(headers: Table) -> list[str]:
    """The keys of both headers; raise PRECONDITION_FAILED if one is not a list of strings."""
    keys = []
    for name in (COPIES, BLIND_COPIES):
        named = headers.get(name, [])
        if not isinstance(named, list) or not all(isinstance(key, str) for key in named):
            raise precondition_failed(f"the header {name} must be a list of routing keys")
        keys += named
    return keys
