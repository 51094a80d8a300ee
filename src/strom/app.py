"""The composition root: the one place that wires a running node from settings."""

import asyncio
import gc
import logging
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from urllib.parse import quote

from strom.broker.broker import Broker
from strom.broker.client_telemetry import ClientTelemetry
from strom.broker.fetch_sessions import FetchSessions
from strom.broker.groups import Groups
from strom.broker.housekeeping import STATE_CHECK_MS, Housekeeping
from strom.broker.queues.hub import QueueBroker
from strom.broker.share_groups import ShareGroups
from strom.broker.transactions import Transactions
from strom.http.hosts import format_authority
from strom.http.server import HttpServer
from strom.metrics.http import HttpStats
from strom.model.broker_settings import BrokerSettings
from strom.model.clock import Clock, SystemClock
from strom.model.errors import UserError
from strom.server.amqp.listener import AmqpListener
from strom.server.event_loop import loop_factory
from strom.server.kafka.api import Endpoint, Services
from strom.server.kafka.dispatch import Dispatcher
from strom.server.kafka.listener import KafkaListener
from strom.server.loop_watchdog import LoopWatchdog
from strom.server.management.app import make_server
from strom.server.node_metrics import NodeParts, make_metrics_server, make_node_metrics
from strom.server.process_limits import (
    METRICS_CONNECTIONS,
    SPARE_DESCRIPTORS,
    make_connection_slots,
    raise_open_file_limit,
)
from strom.storage.files import DiskFiles, FileSystem

log = logging.getLogger(__name__)

ANY_ADDRESS = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - recognised, not bound
QUEUE_SYNC_MS = 100
"""How often acknowledgements in queues are flushed to disk."""
QUEUE_NOTE_MS = 1000
"""How often the positions in topics that feed exchanges are stored."""
QUEUE_TRIM_MS = 5000
"""How often the consumed segments of queues are deleted."""
MASKED = "***"
LOCAL_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True)
class StartWarning:
    """A risk of the settings, and the one to change."""

    text: str
    setting: str | None = None


@dataclass(frozen=True)
class StartReport:
    """The addresses and facts of a node that has started."""

    bootstrap_servers: str
    data: str
    cluster_id: str
    seconds: float
    topics: int
    warnings: list[StartWarning] = field(default_factory=list)
    amqp_url: str | None = field(default=None, repr=False)
    """The URL for AMQP clients, with user and password; None if AMQP is disabled."""
    shown_amqp_url: str | None = None
    """The same for output and logs: a password other than the default is masked."""
    management_url: str | None = None
    """The URL of the management interface of queues."""
    metrics_url: str | None = None
    """The URL for Prometheus to scrape."""


class Node:
    """A broker with its listeners and background tasks."""

    def __init__(
        self,
        settings: BrokerSettings,
        *,
        files: FileSystem | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.settings = settings
        self.failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        """Set when the data directory goes offline, after which the node must be restarted."""
        connections = settings.max_connections + METRICS_CONNECTIONS
        self._files = files or DiskFiles(SPARE_DESCRIPTORS, connections=connections)
        self._slots = make_connection_slots(settings, self._files.open_file_limit())
        self._clock = clock or SystemClock()
        self._broker: Broker | None = None
        self._groups: Groups | None = None
        self._parts = AsyncExitStack()
        """Stops what was started, in reverse order, whether or not the start was complete."""

    async def start(self) -> StartReport:
        """Open the data directory, listen and serve; UserError if one of these fails.

        A start that fails gives everything back: ports, the lock of the data directory, tasks.
        """
        try:
            return await self._start()
        except BaseException:
            try:
                await self.stop()
            except Exception:
                log.exception("Stopping after a failed start failed")
            raise

    async def _start(self) -> StartReport:
        began = time.perf_counter()
        settings = self.settings
        dispatcher = Dispatcher()
        broker = await Broker.open(settings, self._files, self._clock, self._broker_failed)
        self._broker = broker
        self._parts.push_async_callback(broker.close)
        listener = KafkaListener(settings, dispatcher, self._slots)
        # Requests that wait for a coordinator are failed before the listener waits for all requests.
        self._parts.push_async_callback(listener.stop)
        groups, shares, transactions = await self._start_coordinators(broker)
        telemetry = _make_telemetry(broker)

        def serve_at(port: int) -> None:
            services = Services(
                broker=broker,
                groups=groups,
                shares=shares,
                transactions=transactions,
                endpoint=_endpoint(settings, port),
                fetch_sessions=FetchSessions(settings.max_fetch_sessions),
                memory=listener.memory.responses,
                loop=listener.loop,
                telemetry=telemetry,
            )
            dispatcher.serve(services, listener)

        watchdog = LoopWatchdog()
        self._parts.callback(watchdog.stop)
        watchdog.start()
        await listener.start(serve_at)
        queues, amqp = await self._start_queues(broker) if settings.amqp_port else (None, None)
        housekeeping = Housekeeping(broker)
        parts = NodeParts(
            broker,
            groups,
            shares,
            transactions,
            housekeeping,
            dispatcher,
            listener,
            self._slots,
            watchdog,
            queues,
            amqp,
            (HttpStats("management"), HttpStats("metrics")),
            telemetry,
        )
        management_port, metrics_port = await self._start_http(parts)
        self._parts.push_async_callback(housekeeping.stop)
        _start_housekeeping(parts)
        endpoint = _endpoint(settings, listener.port)
        return StartReport(
            bootstrap_servers=format_authority(endpoint.host, endpoint.port),
            data=settings.data,
            cluster_id=broker.directory.cluster_id,
            seconds=time.perf_counter() - began,
            topics=len(broker.topics()),
            warnings=_warnings(settings),
            amqp_url=_amqp_url(settings, endpoint, amqp, settings.amqp_password),
            shown_amqp_url=_amqp_url(settings, endpoint, amqp, _shown_password(settings)),
            management_url=_http_url(endpoint.host, management_port),
            metrics_url=_http_url(endpoint.host, metrics_port, "/metrics"),
        )

    async def _start_coordinators(self, broker: Broker) -> tuple[Groups, ShareGroups, Transactions]:
        self._groups = groups = Groups(broker)
        shares, transactions = ShareGroups(broker, groups), Transactions(broker, groups)
        for coordinator in (transactions, shares, groups):
            self._parts.callback(coordinator.stop)
        with _garbage_collection_paused():
            groups.load()
            shares.load()
            transactions.load()
        await groups.complete_topic()
        return groups, shares, transactions

    async def _start_queues(self, broker: Broker) -> tuple[QueueBroker, AmqpListener]:
        queues = QueueBroker(broker)
        await queues.load()
        # Only now: what was half restored must not be written at the stop.
        self._parts.push_async_callback(queues.stop)
        amqp = AmqpListener(self.settings, queues, self._slots)
        self._parts.push_async_callback(amqp.stop)
        await amqp.start()
        return queues, amqp

    async def _start_http(self, parts: NodeParts) -> tuple[int | None, int | None]:
        """Start the management interface and the metrics, as configured; their ports."""
        settings, metrics = self.settings, make_node_metrics(parts)
        management = exposition = None
        if settings.amqp_management_port and parts.queues is not None and parts.amqp is not None:
            management = await self._serve_http(
                make_server(
                    parts.queues,
                    parts.amqp.declarations,
                    settings,
                    self._slots,
                    metrics.scrape,
                    parts.http[0].count,
                )
            )
        if settings.metrics_port:
            exposition = await self._serve_http(
                make_metrics_server(metrics, settings, parts.http[1])
            )
        return management, exposition

    async def _serve_http(self, server: HttpServer) -> int:
        self._parts.push_async_callback(server.stop)
        await server.start()
        return server.listener.port

    async def stop(self) -> None:
        """Disconnect all clients, finish the requests in flight, flush, and close."""
        await self._parts.aclose()

    def _broker_failed(self, error: Exception) -> None:
        if not self.failed.done():
            self.failed.set_result(error)


def _make_telemetry(broker: Broker) -> ClientTelemetry | None:
    settings = broker.settings
    if not settings.client_telemetry_enable:
        return None
    return ClientTelemetry(
        broker.metadata,
        max_bytes=settings.telemetry_max_bytes,
        max_series=settings.metrics_max_label_values,
    )


def _start_housekeeping(parts: NodeParts) -> None:
    broker, every = parts.broker, parts.housekeeping.every  # its settings may be replaced
    parts.housekeeping.start()
    if parts.queues is not None:
        every(lambda: QUEUE_SYNC_MS, parts.queues.sync)
        every(lambda: QUEUE_TRIM_MS, parts.queues.trim)
        every(lambda: QUEUE_NOTE_MS, parts.queues.bridges.note_positions)
    every(lambda: STATE_CHECK_MS, parts.shares.prune_if_long)
    every(lambda: broker.settings.offsets_retention_check_interval_ms, parts.groups.expire_offsets)
    every(lambda: broker.settings.share_state_topic_prune_interval_ms, parts.shares.prune)
    every(lambda: broker.settings.transaction_abort_interval_ms, parts.transactions.abort_timed_out)
    every(
        lambda: broker.settings.transactional_id_expiration_interval_ms, parts.transactions.expire
    )


def serve(
    settings: BrokerSettings,
    *,
    on_ready: Callable[[StartReport], None],
    on_stopping: Callable[[], None] = lambda: None,
) -> None:
    """Run a node in the foreground until SIGTERM or SIGINT; UserError if its data directory fails.

    `on_stopping` is called in a thread, before the node stops serving.
    """
    raise_open_file_limit()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(settings, on_ready, on_stopping))


async def _serve(
    settings: BrokerSettings,
    on_ready: Callable[[StartReport], None],
    on_stopping: Callable[[], None],
) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(name, stop.set)
        except NotImplementedError:  # Windows
            signal.signal(name, lambda *_: loop.call_soon_threadsafe(stop.set))
    node = Node(settings)
    ready = await node.start()
    _relax_garbage_collection()
    on_ready(ready)
    node.failed.add_done_callback(lambda _: stop.set())
    await stop.wait()
    await asyncio.to_thread(on_stopping)
    await node.stop()
    if node.failed.done():
        raise UserError(
            f"The data directory {settings.data} failed ({node.failed.result()}). No write that failed "
            "was acknowledged. Check the disk, then start again."
        )


@contextmanager
def _garbage_collection_paused() -> Iterator[None]:
    """For loading a large state without cycles: the collector would take half of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _relax_garbage_collection() -> None:
    """Make full collections rare: each stops the event loop, for a second if there are a million objects.

    What was loaded stays, so it is excluded. Hardly anything here forms cycles, and those of requests are
    found by the collections of young objects, which stay short.
    """
    gc.freeze()
    gc.set_threshold(10_000, 5, 100)


def _endpoint(settings: BrokerSettings, port: int) -> Endpoint:
    host = settings.advertised_host or settings.host
    if host in ANY_ADDRESS:
        # Clients cannot connect to a wildcard address.
        host = "localhost"
    return Endpoint(settings.node_id, host, settings.advertised_port or port)


def _http_url(host: str, port: int | None, path: str = "") -> str | None:
    return None if port is None else f"http://{format_authority(host, port)}{path}"


def _amqp_url(
    settings: BrokerSettings, endpoint: Endpoint, listener: AmqpListener | None, password: str
) -> str | None:
    if listener is None:
        return None
    login = f"{quote(settings.amqp_user, safe='')}:{quote(password, safe='*')}"
    return f"amqp://{login}@{format_authority(endpoint.host, listener.port)}/%2F"


def _shown_password(settings: BrokerSettings) -> str:
    """The default is documented, so it is shown: the URL can be copied."""
    default = BrokerSettings.definition("amqp.password").default
    return default if settings.amqp_password == default else MASKED


def _warnings(settings: BrokerSettings) -> list[StartWarning]:
    if settings.host in LOCAL_HOSTS:
        return []
    warnings = [
        StartWarning(
            f"This broker listens on {settings.host or 'all addresses'} without authentication: every "
            "host that can connect to it can read, write and delete everything."
        )
    ]
    if settings.host in ANY_ADDRESS and not settings.advertised_host:
        text = (
            "Clients on other machines will be sent to 'localhost'. Set advertised.host to an address "
            "that they can reach."
        )
        warnings.append(StartWarning(text, setting="advertised.host"))
    return warnings
