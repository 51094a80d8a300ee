"""A virtual host: exchanges, queues, bindings, and routing."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from strom.model.errors import ApiError
from strom.model.topics import check_topic_name, is_internal, is_of_queues
from strom.queues.definitions import EXCHANGE, QUEUE, Arguments, Binding, ExchangeDefinition
from strom.queues.errors import (
    QueueError,
    Reason,
    access_refused,
    not_found,
    precondition_failed,
)
from strom.queues.exchanges import Direct, Fanout, Headers, Matcher, Topic, check_form
from strom.queues.queue import Queue

DEFAULT = ""
DELAYED = "x-delayed-message"
"""The type of an exchange that honours `x-delay` and then routes by its `x-delayed-type`."""
ALTERNATE = "alternate-exchange"
TO_TOPIC = "x-strom-to-topic"
"""An exchange with this argument also writes every message to a Kafka topic."""
FROM_TOPIC = "x-strom-from-topic"
"""An exchange with this argument routes every record of a Kafka topic."""
FROM_OFFSET = "x-strom-offset"
"""Where such an exchange starts to read: at the `first` record, or with the `next` one (default)."""
DEAD_LETTER_TOPIC = "x-strom-dead-letter-topic"
"""Its dead letter topic, for records that cannot be routed; by default `dlq.` and the topic's name."""
_MAX_KNOWN_ROUTES = 4096

_KINDS: dict[str, type[Matcher[Any]]] = {
    "direct": Direct,
    "fanout": Fanout,
    "topic": Topic,
    "headers": Headers,
}


class Exchange:
    """An exchange with its bindings."""

    def __init__(self, definition: ExchangeDefinition) -> None:
        self.definition = definition
        self.name = definition.name
        self.alternate: str | None = definition.arguments.get(ALTERNATE)
        self.to_topic, self.from_topic = _topics_of(definition)
        self.internal = definition.internal
        self.matcher: Matcher[Destination] = _KINDS[_kind_of(definition)]()
        self.was_bound = False


Destination: TypeAlias = Queue | Exchange


def _kind_of(definition: ExchangeDefinition) -> str:
    kind = definition.type
    if kind == DELAYED:
        kind = definition.arguments.get("x-delayed-type", "")
        if not isinstance(kind, str) or kind not in _KINDS:
            raise precondition_failed(f"invalid x-delayed-type {kind!r}")
    if kind not in _KINDS:
        raise QueueError(Reason.COMMAND_INVALID, f"unknown exchange type '{kind}'")
    return kind


def _topics_of(definition: ExchangeDefinition) -> tuple[str | None, str | None]:
    """The topic that an exchange writes to, and the one that it reads."""
    arguments = definition.arguments
    topics = arguments.get(TO_TOPIC), arguments.get(FROM_TOPIC)
    for topic in topics:
        if topic is not None and not isinstance(topic, str):
            raise precondition_failed(f"{topic!r} is not a valid topic name")
    if topics[0] is not None and topics[0] == topics[1]:
        raise precondition_failed("a topic cannot feed the exchange that feeds it")
    if arguments.get(FROM_OFFSET, "next") not in ("first", "next"):
        raise precondition_failed(f"invalid {FROM_OFFSET}: it must be first or next")
    _check_dead_letter_topic(arguments.get(DEAD_LETTER_TOPIC), source=topics[1])
    return topics


def _check_dead_letter_topic(name: object, source: str | None) -> None:
    if name is None:
        return
    if not isinstance(name, str):
        raise precondition_failed(f"invalid {DEAD_LETTER_TOPIC}: {name!r} is not a topic name")
    try:
        check_topic_name(name)
    except ApiError as error:
        raise precondition_failed(f"invalid {DEAD_LETTER_TOPIC}: {error}") from error
    if name == source or is_internal(name):
        raise precondition_failed(
            f"invalid {DEAD_LETTER_TOPIC}: {name!r} is the exchange's source topic, or internal"
        )


def refuse_internal_topics(exchange: Exchange) -> None:
    """Raise ACCESS_REFUSED for an exchange that would write to an internal topic, or read a queue's log.

    A queue that feeds the exchange that feeds it would be an endless loop.
    """
    written, read = exchange.to_topic, exchange.from_topic
    if written is not None and is_internal(written):
        raise access_refused(f"topic '{written}' is internal: an exchange cannot write to it")
    if read is not None and is_of_queues(read):
        raise access_refused(f"topic '{read}' is the log of a queue: bind the queue instead")


class VirtualHost:
    """Exchanges, queues and bindings of one namespace."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, Queue] = {}
        self.bindings: dict[tuple[str, ...], Binding] = {}
        self.has_feeds = False
        """Whether an exchange has ever fed a topic."""
        self._routes: dict[tuple[str, str], tuple[Queue, ...]] = {}
        for exchange in predeclared(name):
            self.exchanges[exchange.name] = Exchange(exchange)

    # --- looking -------------------------------------------------------------------------------

    def exchange(self, name: str) -> Exchange:
        """The exchange of that name; QueueError (NOT_FOUND) if there is none."""
        found = self.exchanges.get(name)
        if found is None:
            raise not_found("exchange", name, self.name)
        return found

    def queue(self, name: str) -> Queue:
        """The queue of that name; QueueError (NOT_FOUND) if there is none."""
        found = self.queues.get(name)
        if found is None:
            raise not_found("queue", name, self.name)
        return found

    # --- changing ------------------------------------------------------------------------------

    def add_exchange(self, definition: ExchangeDefinition) -> Exchange:
        """Create an exchange; QueueError (COMMAND_INVALID) if its type is unknown."""
        exchange = self.exchanges[definition.name] = Exchange(definition)
        self.has_feeds = self.has_feeds or exchange.to_topic is not None
        self._routes.clear()
        return exchange

    def remove_exchange(self, exchange: Exchange) -> list[Binding]:
        """Remove an exchange and its bindings; return these."""
        gone = [
            binding
            for binding in self.bindings.values()
            if exchange.name == binding.source
            or (binding.kind == EXCHANGE and binding.destination == exchange.name)
        ]
        for binding in gone:
            self.unbind(binding)
        del self.exchanges[exchange.name]
        self._routes.clear()
        return gone

    def add_queue(self, queue: Queue) -> None:
        self.queues[queue.name] = queue
        self._routes.clear()

    def remove_queue(self, queue: Queue) -> list[Binding]:
        """Remove a queue and its bindings; return these."""
        gone = [
            binding
            for binding in self.bindings.values()
            if binding.kind == QUEUE and binding.destination == queue.name
        ]
        for binding in gone:
            self.unbind(binding)
        del self.queues[queue.name]
        self._routes.clear()
        return gone

    def _destination(self, binding: Binding) -> Destination:
        find = self.queue if binding.kind == QUEUE else self.exchange
        return find(binding.destination)

    def bind(self, binding: Binding) -> bool:
        """Add a binding; False if it exists."""
        source = self.exchange(binding.source)
        destination = self._destination(binding)
        if isinstance(source.matcher, Headers):
            check_form(binding.arguments)
        if binding.identity in self.bindings:
            return False
        self.bindings[binding.identity] = binding
        source.matcher.bind(destination, binding.routing_key, binding.arguments)
        source.was_bound = True
        self._routes.clear()
        return True

    def unbind(self, binding: Binding) -> bool:
        """Remove a binding; False if it does not exist."""
        source = self.exchange(binding.source)
        destination = self._destination(binding)
        if self.bindings.pop(binding.identity, None) is None:
            return False
        source.matcher.unbind(destination, binding.routing_key, binding.arguments)
        self._routes.clear()
        return True

    def is_unused(self, exchange: Exchange) -> bool:
        return not any(binding.source == exchange.name for binding in self.bindings.values())

    # --- routing -------------------------------------------------------------------------------

    def route(
        self, exchange: str, routing_key: str, headers: Arguments | None
    ) -> tuple[Queue, ...]:
        """The queues that a message is routed to, each once."""
        known = self._routes.get((exchange, routing_key))
        if known is not None:
            return known
        if exchange == DEFAULT:
            queue = self.queues.get(routing_key)
            return () if queue is None else (queue,)
        walk = _Walk(self, routing_key, headers or {})
        walk.visit(self.exchange(exchange))
        queues = tuple(walk.queues)
        if not walk.used_headers:
            if len(self._routes) >= _MAX_KNOWN_ROUTES:
                self._routes.clear()
            self._routes[exchange, routing_key] = queues
        return queues

    def exchanges_passed(
        self, exchange: str, routing_key: str, headers: Arguments | None
    ) -> Iterator[Exchange]:
        """The exchanges that a message passes through."""
        if exchange != DEFAULT:
            walk = _Walk(self, routing_key, headers or {})
            walk.visit(self.exchange(exchange))
            yield from walk.visited.values()


class _Walk:
    """Routes one message; it passes each exchange only once, so that cycles of bindings end."""

    def __init__(self, vhost: VirtualHost, routing_key: str, headers: Arguments) -> None:
        self.queues: dict[Queue, None] = {}
        self.visited: dict[str, Exchange] = {}
        self.used_headers = False
        self._vhost = vhost
        self._key = routing_key
        self._headers = dict(headers)

    def visit(self, first: Exchange) -> None:
        todo = [first]
        while todo:
            exchange = todo.pop()
            if exchange.name in self.visited:
                continue
            self.visited[exchange.name] = exchange
            todo += self._through(exchange)

    def _through(self, exchange: Exchange) -> Iterable[Exchange]:
        """Collect the queues that match behind an exchange; return the exchanges that do."""
        self.used_headers = self.used_headers or exchange.matcher.uses_headers
        onward = []
        matched = False
        if exchange.name == DEFAULT:
            queue = self._vhost.queues.get(self._key)
            if queue is not None:
                self.queues[queue] = None
            return ()
        for destination in exchange.matcher.match(self._key, self._headers):
            matched = True
            if isinstance(destination, Exchange):
                onward.append(destination)
            else:
                self.queues[destination] = None
        if not matched and exchange.alternate is not None:
            alternate = self._vhost.exchanges.get(exchange.alternate)
            if alternate is not None:
                onward.append(alternate)
        return onward


def predeclared(vhost: str) -> Iterator[ExchangeDefinition]:
    """The exchanges of every virtual host, as RabbitMQ declares them."""
    for name, kind in (
        (DEFAULT, "direct"),
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.topic", "topic"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
    ):
        yield ExchangeDefinition(vhost, name, kind)
    yield ExchangeDefinition(vhost, "amq.rabbitmq.trace", "topic", internal=True)
