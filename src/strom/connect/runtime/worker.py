"""A worker: everything that runs connectors in one process."""

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from strom.client.connection_settings import ConnectionSettings
from strom.connect.api import InvalidSettings
from strom.connect.runtime.assignment import CONNECTOR, Unit
from strom.connect.runtime.clients import Clients
from strom.connect.runtime.connector_run import ConnectorJob, ConnectorRun
from strom.connect.runtime.conversion import make_conversion
from strom.connect.runtime.herder import Herder
from strom.connect.runtime.logs import ConnectorLogs
from strom.connect.runtime.membership import Membership, WorkerGroup
from strom.connect.runtime.runner import Ended, RunnerContext, UnitRunner
from strom.connect.runtime.secrets import Secrets, secrets_in
from strom.connect.runtime.settings import (
    CLIENT_PREFIXES,
    CONVERTER_PREFIXES,
    CommonSettings,
    SinkSettings,
    SourceSettings,
    WorkerSettings,
    with_prefix,
    without,
)
from strom.connect.runtime.sink_run import SinkRun
from strom.connect.runtime.sink_session import SinkJob
from strom.connect.runtime.source_run import SourceJob, SourceRun
from strom.connect.runtime.state import ConnectorState
from strom.connect.runtime.stores import Stores
from strom.connect.runtime.transaction_timeouts import read_broker_limit_ms
from strom.connect.runtime.validation import Checker, exactly_once

log = logging.getLogger(__name__)


class ConnectWorker:
    """One worker of a group. `texts` are its settings, those of its clients included."""

    def __init__(self, texts: Mapping[str, str], *, port: int | None = None) -> None:
        own, clients, converters = split_texts(texts)
        self.settings = WorkerSettings.read(own)
        self.secrets = Secrets()
        resolved = self.secrets.resolve(clients)
        self.secrets.keep_hidden(secrets_in({**clients, **converters}))
        converters = self.secrets.resolve(converters)
        unnamed = CommonSettings(name="", connector_class="")
        # Fails now if a default converter is unknown, not at the first connector.
        make_conversion({}, unnamed, self.settings, converters).close()
        self.clients = Clients(self.settings.bootstrap_servers, resolved)
        self.admin = self.clients.admin()
        host = self.settings.advertised_host or self.settings.host
        host = f"[{host}]" if ":" in host else host
        self.worker_id = f"{host}:{self.settings.port if port is None else port}"
        self._converter_texts = converters
        self.checker = Checker(
            self.settings,
            converters,
            self.secrets,
            with_prefix(resolved, "producer."),
            lambda: read_broker_limit_ms(self.admin),
        )
        self.stores = Stores(self.clients, self.settings)
        self.logs = ConnectorLogs(self.settings.log_lines, self.secrets.hide)
        self.herder = Herder(
            self.stores, self._make_runner, self.worker_id, self.settings.graceful_ms / 1000
        )
        group = WorkerGroup(
            self.settings.group_id,
            self.worker_id,
            self.settings.session_ms,
            self.settings.heartbeat_ms,
        )
        connection = ConnectionSettings(self.settings.bootstrap_servers, self.clients.shared)
        self.membership = Membership(connection, group, self.herder)
        self.herder.holds_lease = self.membership.holds_lease
        self.herder.rejoin = self.membership.rejoin
        self.herder.wake_leader = self.membership.wake
        self._runner_context = RunnerContext(
            self.membership.holds_lease, self.secrets, self._report
        )

    def start(self) -> None:
        """Read the topics, then join the group."""
        logger = logging.getLogger("strom.connect")
        with ExitStack() as undo:
            logger.addHandler(self.logs)
            undo.callback(logger.removeHandler, self.logs)
            if logger.getEffectiveLevel() > logging.INFO:
                logger.setLevel(logging.INFO)
            undo.callback(self.stores.stop)
            self.stores.start()
            self.herder.start()
            undo.callback(self.herder.stop)
            self.membership.start()
            undo.pop_all()

    def stop(self) -> None:
        """Stop all tasks, then leave the group."""
        self.herder.stop()
        self.membership.stop()
        self.stores.stop()
        logging.getLogger("strom.connect").removeHandler(self.logs)

    def _report(self, unit: Unit, state: str, trace: str | None) -> None:
        self.stores.write_status(unit, self.herder.status(state, trace))

    def _make_runner(self, unit: Unit, connector: ConnectorState) -> UnitRunner:
        config = connector.config if unit.task == CONNECTOR else connector.tasks[unit.task]
        common = self._common(config)
        if unit.task == CONNECTOR:
            return ConnectorRun(unit, self._connector_job(connector), self._runner_context, common)
        if isinstance(common, SourceSettings):
            return SourceRun(
                unit,
                lambda: self._source_job(unit, connector),
                self._runner_context,
                common,
            )
        # An invalid configuration is found again, and reported, when the job is made.
        sink = (
            common
            if isinstance(common, SinkSettings)
            else SinkSettings(name="", connector_class="")
        )
        return SinkRun(unit, lambda: self._sink_job(config), self._runner_context, sink)

    def _common(self, config: Mapping[str, str]) -> CommonSettings:
        """The runtime's part; defaults if it is invalid, which the runner then reports."""
        try:
            return self.checker.common(config)
        except InvalidSettings:
            return CommonSettings(name=config.get("name", ""), connector_class="")

    def _connector_job(self, connector: ConnectorState) -> ConnectorJob:
        config = dict(connector.config)

        def split() -> Sequence[Mapping[str, str]]:
            made = self.checker.make(config)
            extras = made.task_settings(self.checker.common(config).tasks_max)
            return [{**config, **extra} for extra in extras]

        def transactional_ids(tasks: int) -> Sequence[str]:
            kind = self.checker.plugin(config)
            if kind.kind != "source" or not exactly_once(kind, self.settings):
                return ()
            return [self._transactional_id(Unit(connector.name, number)) for number in range(tasks)]

        return ConnectorJob(
            split,
            lambda: self.stores.connector(connector.name),
            self.stores.write_config,
            transactional_ids,
            self._clients_of(config),
        )

    def _source_job(self, unit: Unit, connector: ConnectorState) -> SourceJob:
        config = connector.tasks[unit.task]
        generation = connector.tasks_offset
        exact = exactly_once(self.checker.plugin(config), self.settings)
        return SourceJob(
            **self._task_job(config),
            offsets=self.stores.offsets,
            transactional_id=self._transactional_id(unit) if exact else None,
            ready=lambda runner: self._wait_for_fences(runner, unit, generation) if exact else None,
        )

    def _sink_job(self, config: Mapping[str, str]) -> SinkJob:
        return SinkJob(**self._task_job(config), session_ms=self.settings.session_ms)

    def _task_job(self, config: Mapping[str, str]) -> dict[str, Any]:
        """The fields of a `TaskJob`; InvalidSettings if the configuration is invalid."""
        settings = self.checker.own(config)
        common = self.checker.common(config)
        connector_class: Any = self.checker.plugin(config).load()
        return {
            "settings": common,
            "make_task": lambda context: connector_class.task_class(settings, context),
            "conversion": self._conversion(config, common),
            "clients": self._clients_of(config),
            "flush_s": self.settings.flush_interval_ms / 1000,
            "uses_topic": self._use_topic,
        }

    def _wait_for_fences(self, runner: UnitRunner, unit: Unit, generation: int) -> None:
        """Wait until tasks of older generations are fenced; Ended if this one is older itself."""
        runner.retry(self.stores.catch_up, "Reading configurations")
        while True:
            runner.check()
            connector = self.stores.connector(unit.connector)
            if connector is None or connector.tasks_offset != generation:
                raise Ended
            if connector.fenced_offset > generation:
                return
            self.stores.wait_for_config(0.2)

    def _conversion(self, config: Mapping[str, str], common: CommonSettings) -> Any:
        resolved = self.secrets.resolve(config)
        return make_conversion(resolved, common, self.settings, self._converter_texts)

    def _clients_of(self, config: Mapping[str, str]) -> Clients:
        return self.clients.of_connector(self.secrets.resolve(config))

    def _transactional_id(self, unit: Unit) -> str:
        return f"{self.settings.group_id}-{unit.connector}-{unit.task}"

    def _use_topic(self, unit: Unit, topic: str) -> None:
        self.stores.use_topic(unit, topic, int(time.time() * 1000))


def split_texts(
    texts: Mapping[str, str],
) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """A worker's own settings, those of its clients, and those of its default converters."""
    known = WorkerSettings.definitions()
    own = {name: text for name, text in texts.items() if name in known}
    rest = {name: text for name, text in texts.items() if name not in known}
    converters = {name: text for name, text in rest.items() if name.startswith(CONVERTER_PREFIXES)}
    clients = without(rest, CONVERTER_PREFIXES)
    for name in clients:
        if not name.startswith(CLIENT_PREFIXES) and not name.startswith(
            ("security.", "sasl.", "ssl.", "enable.ssl.", "client.", "socket.", "broker.")
        ):
            WorkerSettings.read({name: clients[name]})  # raises, with the nearest known name
    return own, clients, converters
