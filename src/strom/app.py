"""The composition root: the one place that wires a running node from settings."""

import asyncio
import gc
import logging
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import quote

from strom.broker.broker import Broker
from strom.broker.fetch_sessions import FetchSessions
from strom.broker.groups import Groups
from strom.broker.housekeeping import STATE_CHECK_MS, Housekeeping
from strom.broker.queues.hub import QueueBroker
from strom.broker.share_groups import ShareGroups
from strom.broker.transactions import Transactions
from strom.http.hosts import format_authority
from strom.http.server import HttpServer
from strom.metrics.exposition import MetricsRegistry
from strom.model.broker_settings import BrokerSettings
from strom.model.clock import Clock, SystemClock
from strom.model.errors import UserError
from strom.server.amqp.listener import AmqpListener
from strom.server.event_loop import loop_factory
from strom.server.kafka.context import Endpoint, Services
from strom.server.kafka.dispatch import Dispatcher
from strom.server.kafka.listener import KafkaListener
from strom.server.management.app import make_server
from strom.server.node_metrics import NodeParts, make_metrics_server, make_node_metrics
from strom.server.process_limits import (
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
        self._files = files or DiskFiles(SPARE_DESCRIPTORS)
        self._slots = make_connection_slots(settings.max_connections, self._files.open_file_limit())
        self._clock = clock or SystemClock()
        self._broker: Broker | None = None
        self._groups: Groups | None = None
        self._shares: ShareGroups | None = None
        self._transactions: Transactions | None = None
        self._listener: KafkaListener | None = None
        self._housekeeping: Housekeeping | None = None
        self._queues: QueueBroker | None = None
        self._amqp: AmqpListener | None = None
        self._management: HttpServer | None = None
        self._metrics: HttpServer | None = None

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
        self._groups = groups = Groups(broker)
        self._shares = shares = ShareGroups(broker, groups)
        self._transactions = transactions = Transactions(broker, groups)
        with _garbage_collection_paused():
            groups.load()
            shares.load()
            transactions.load()
        await groups.complete_topic()
        self._housekeeping = Housekeeping(broker)
        self._listener = listener = KafkaListener(settings, dispatcher, self._slots)
        await listener.start(lambda port: self._serve(dispatcher, listener, port))
        if settings.amqp_port:
            await self._start_queues(broker)
        parts = NodeParts(
            broker,
            groups,
            shares,
            transactions,
            self._housekeeping,
            dispatcher,
            listener,
            self._slots,
            self._queues,
            self._amqp,
        )
        await self._start_http(make_node_metrics(parts))
        self._start_housekeeping(broker, groups, shares, transactions)
        endpoint = _endpoint(settings, listener.port)
        return StartReport(
            bootstrap_servers=format_authority(endpoint.host, endpoint.port),
            data=settings.data,
            cluster_id=broker.directory.cluster_id,
            seconds=time.perf_counter() - began,
            topics=len(broker.topics()),
            warnings=_warnings(settings),
            amqp_url=_amqp_url(settings, endpoint, self._amqp, settings.amqp_password),
            shown_amqp_url=_amqp_url(settings, endpoint, self._amqp, _shown_password(settings)),
            management_url=(
                None
                if self._management is None
                else "http://" + format_authority(endpoint.host, self._management.listener.port)
            ),
            metrics_url=(
                None
                if self._metrics is None
                else "http://"
                + format_authority(endpoint.host, self._metrics.listener.port)
                + "/metrics"
            ),
        )

    def _start_housekeeping(
        self, broker: Broker, groups: Groups, shares: ShareGroups, transactions: Transactions
    ) -> None:
        housekeeping = self._housekeeping
        assert housekeeping is not None  # noqa: S101 - see start()
        housekeeping.start()
        housekeeping.every(
            lambda: broker.settings.offsets_retention_check_interval_ms, groups.expire_offsets
        )
        if self._queues is not None:
            housekeeping.every(lambda: QUEUE_SYNC_MS, self._queues.sync)
            housekeeping.every(lambda: QUEUE_TRIM_MS, self._queues.trim)
            housekeeping.every(lambda: QUEUE_NOTE_MS, self._queues.bridges.note_positions)
        housekeeping.every(
            lambda: broker.settings.share_state_topic_prune_interval_ms, shares.prune
        )
        housekeeping.every(lambda: STATE_CHECK_MS, shares.prune_if_long)
        housekeeping.every(
            lambda: broker.settings.transaction_abort_interval_ms, transactions.abort_timed_out
        )
        housekeeping.every(
            lambda: broker.settings.transactional_id_expiration_interval_ms, transactions.expire
        )

    async def _start_queues(self, broker: Broker) -> None:
        queues = QueueBroker(broker)
        await queues.load()
        self._queues = queues  # only now: what was half restored must not be written at the stop
        self._amqp = AmqpListener(self.settings, queues, self._slots)
        await self._amqp.start()

    async def _start_http(self, metrics: MetricsRegistry) -> None:
        settings = self.settings
        if settings.amqp_management_port and self._queues is not None and self._amqp is not None:
            self._management = make_server(
                self._queues, self._amqp.declarations, settings, self._slots, metrics.scrape
            )
            await self._management.start()
        if settings.metrics_port:
            self._metrics = make_metrics_server(metrics, settings)
            await self._metrics.start()

    async def stop(self) -> None:
        """Disconnect all clients, finish the requests in flight, flush, and close."""
        try:
            await self._stop_serving()
        finally:
            if self._broker is not None:
                await self._broker.close()

    async def _stop_serving(self) -> None:
        if self._housekeeping is not None:
            await self._housekeeping.stop()
        if self._groups is not None:
            self._groups.stop()
        if self._metrics is not None:
            await self._metrics.stop()
        if self._management is not None:
            await self._management.stop()
        if self._amqp is not None:
            await self._amqp.stop()
        if self._queues is not None:
            await self._queues.stop()
        if self._shares is not None:
            self._shares.stop()
        if self._transactions is not None:
            self._transactions.stop()
        if self._listener is not None:
            await self._listener.stop()

    def _serve(self, dispatcher: Dispatcher, listener: KafkaListener, port: int) -> None:
        assert self._broker is not None  # noqa: S101 - see start()
        assert self._groups is not None and self._transactions is not None  # noqa: S101, PT018
        assert self._shares is not None  # noqa: S101
        services = Services(
            broker=self._broker,
            groups=self._groups,
            shares=self._shares,
            transactions=self._transactions,
            endpoint=_endpoint(self.settings, port),
            fetch_sessions=FetchSessions(self.settings.max_fetch_sessions),
            memory=listener.memory,
            loop=listener.loop,
        )
        dispatcher.serve(services, listener)

    def _broker_failed(self, error: Exception) -> None:
        if not self.failed.done():
            self.failed.set_result(error)


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
    on_ready(await node.start())
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


def _endpoint(settings: BrokerSettings, port: int) -> Endpoint:
    host = settings.advertised_host or settings.host
    if host in ANY_ADDRESS:
        # Clients cannot connect to a wildcard address.
        host = "localhost"
    return Endpoint(settings.node_id, host, settings.advertised_port or port)


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
