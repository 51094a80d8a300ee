"""The metrics of a node: which part is read for which table, and the port where they are read."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from strom.broker.broker import Broker
from strom.broker.client_telemetry import ClientTelemetry
from strom.broker.groups import Groups
from strom.broker.housekeeping import Housekeeping
from strom.broker.measurements import (
    read_directory,
    read_groups,
    read_lags,
    read_open_transactions,
    read_partitions,
    read_queues,
    read_share_lags,
    read_transactions,
)
from strom.broker.queues.hub import QueueBroker
from strom.broker.share_groups import ShareGroups
from strom.broker.transactions import Transactions
from strom.http.application import HttpApplication
from strom.http.errors import ErrorFormat
from strom.http.guard import Guard
from strom.http.server import HttpListener, HttpServer
from strom.metrics import groups, loop, queues, requests, storage, telemetry
from strom.metrics.exposition import MetricsRegistry
from strom.metrics.http import HTTP, HttpStats
from strom.metrics.queues import AmqpReading
from strom.metrics.tables import MetricsCollector, Reading, TableCollector
from strom.model.broker_settings import BrokerSettings
from strom.model.clock import Clock
from strom.model.http_settings import HttpLimits
from strom.server.amqp.listener import AmqpListener
from strom.server.kafka.dispatch import Dispatcher
from strom.server.kafka.listener import KafkaListener
from strom.server.loop_watchdog import LoopWatchdog
from strom.server.process_limits import METRICS_CONNECTIONS, ConnectionSlots

ERRORS = ErrorFormat("The metrics port", lambda error: {"error": error.message})


@dataclass(frozen=True)
class NodeParts:
    """The parts of a running node that have metrics."""

    broker: Broker
    groups: Groups
    shares: ShareGroups
    transactions: Transactions
    housekeeping: Housekeeping
    dispatcher: Dispatcher
    listener: KafkaListener
    slots: ConnectionSlots
    watchdog: LoopWatchdog
    queues: QueueBroker | None
    amqp: AmqpListener | None
    http: tuple[HttpStats, ...]
    """Of the management interface and of the metrics port."""
    telemetry: ClientTelemetry | None


def make_node_metrics(parts: NodeParts) -> MetricsRegistry:
    """Register the metrics of all parts of a running node."""
    collectors: list[MetricsCollector] = [
        TableCollector(
            {
                requests.REQUESTS: parts.dispatcher.requests,
                requests.ERRORS: parts.dispatcher.errors,
                requests.INVALID: _one(lambda: (parts.dispatcher.invalid_requests,)),
                requests.CONNECTIONS: lambda: _connections(parts),
                requests.CONNECTION_LIMIT: _one(lambda: (parts.slots.limit,)),
                requests.REFUSED: lambda: parts.slots.refused.items(),
                requests.DROPPED: lambda: _dropped(parts),
                loop.LOOP: _one(parts.watchdog.reading),
            }
        ),
        storage.LogCollector(lambda: read_partitions(parts.broker)),
        TableCollector(
            {
                storage.FLUSHES: _one(parts.broker.commit.flushes),
                storage.CLEANING: _one(parts.housekeeping.cleaning),
                storage.DIRECTORY: lambda: read_directory(parts.broker),
            }
        ),
        TableCollector(
            {
                groups.GROUPS: lambda: read_groups(parts.groups.look()),
                groups.GROUP_MEMORY: _one(lambda: _group_memory(parts.groups)),
                groups.OFFSETS: lambda: read_lags(parts.broker, parts.groups.look()),
                groups.SHARES: lambda: read_share_lags(parts.shares),
                groups.TRANSACTIONS: lambda: read_transactions(parts.transactions),
                groups.TRANSACTION_ENDS: lambda: parts.transactions.ended.items(),
                groups.OPEN_TRANSACTIONS: lambda: read_open_transactions(
                    parts.transactions, parts.broker.clock.now_ms()
                ),
            }
        ),
    ]
    collectors.append(
        TableCollector({HTTP: lambda: chain.from_iterable(one.read() for one in parts.http)})
    )
    if parts.queues is not None and parts.amqp is not None:
        collectors.append(_queues(parts.queues, parts.amqp))
    if parts.telemetry is not None:
        collectors.append(_telemetry(parts.telemetry, parts.broker.clock))
    return MetricsRegistry(collectors, parts.broker.settings.metrics_max_label_values)


def _queues(broker: QueueBroker, amqp: AmqpListener) -> TableCollector:
    def all_queues() -> AmqpReading:
        return AmqpReading(
            sum(len(vhost.queues) for vhost in broker.vhosts.values()),
            len(broker.damaged),
            broker.bridges.stopped_by_damage,
            sum(len(connection.channels) for connection in tuple(amqp.connections)),
            broker.block.reason is not None,
        )

    return TableCollector(
        {queues.QUEUES: lambda: read_queues(broker), queues.AMQP: _one(all_queues)}
    )


def _telemetry(clients: ClientTelemetry, clock: Clock) -> TableCollector:
    return TableCollector(
        {
            telemetry.CLIENTS: lambda: clients.series(clock.now_ms()),
            telemetry.TELEMETRY: _one(clients.counts),
        }
    )


def _group_memory(running: Groups) -> tuple[int, int]:
    memory = running.look().memory
    return memory.in_use, memory.capacity


def _listeners(parts: NodeParts) -> Iterator[tuple[str, KafkaListener | AmqpListener]]:
    yield "kafka", parts.listener
    if parts.amqp is not None:
        yield "amqp", parts.amqp


def _connections(parts: NodeParts) -> Iterator[Reading]:
    for name, listener in _listeners(parts):
        yield name, len(listener.connections), listener.memory.in_use, listener.memory.capacity


def _dropped(parts: NodeParts) -> Iterator[Reading]:
    for name, listener in _listeners(parts):
        for reason, count in listener.dropped.items():
            yield name, reason, count


def _one(read: Callable[[], Reading]) -> Callable[[], Iterator[Reading]]:
    """A table of one row."""

    def rows() -> Iterator[Reading]:
        yield read()

    return rows


def make_metrics_server(
    metrics: MetricsRegistry, settings: BrokerSettings, requests_counted: HttpStats
) -> HttpServer:
    """Bind the port of metrics and health checks, on the node's event loop; UserError if it is in use."""
    app = HttpApplication(
        guard=Guard.create(
            settings.host, settings.http_allowed_hosts, advertised=settings.advertised_host
        ),
        errors=ERRORS,
        metrics=metrics.scrape,
        count=requests_counted.count,
    )
    listener = HttpListener(
        settings.host,
        max(0, settings.metrics_port),
        interface=ERRORS.interface,
        setting="metrics.port",
    )
    return HttpServer(app, listener, limits=HttpLimits(connections=METRICS_CONNECTIONS))
