"""A broker in the process of the test, in a thread."""

import asyncio
import contextlib
import dataclasses
import shutil
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Self

from strom.app import Node, StartReport
from strom.model.broker_settings import BrokerSettings
from strom.server.event_loop import loop_factory

FOR_TESTS = {"group.initial.rebalance.delay.ms": "0"}
"""By default a new group waits three seconds for more members, which only delays a test."""
START_SECONDS = 30


class LocalBroker:
    """A fresh broker on a free port of this machine.

    with LocalBroker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    Its data lives in a temporary folder that stop() removes, unless `data` names a folder to keep. With
    `queues=True` AMQP clients can connect to `broker.amqp_url`.
    Settings have Kafka's names: LocalBroker(settings={"auto.create.topics.enable": "false"}).
    """

    def __init__(
        self,
        *,
        data: str | None = None,
        settings: dict[str, str] | None = None,
        port: int = 0,
        queues: bool = False,
    ) -> None:
        self._temporary = tempfile.mkdtemp(prefix="strom-") if data is None else None
        self._settings = dataclasses.replace(
            BrokerSettings().override(FOR_TESTS | _ports(queues) | (settings or {})),
            data=data or self._temporary or "",
            port=port,
        )
        self._thread: threading.Thread | None = None
        self._ask_to_stop: Callable[[], object] = lambda: None
        self._started: Future[StartReport] = Future()
        self._ready: StartReport | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The address for Kafka clients, as in `127.0.0.1:40123`."""
        if self._ready is None:
            raise RuntimeError("the broker is not running: use it in a `with`, or call start()")
        return self._ready.bootstrap_servers

    def _url(self, name: str, if_disabled: str) -> str:
        url: str | None = getattr(self._ready, name, None)
        if url is None:
            raise RuntimeError(if_disabled)
        return url

    @property
    def amqp_url(self) -> str:
        """The URL for AMQP clients, as in `amqp://guest:guest@127.0.0.1:40124/%2F`."""
        return self._url("amqp_url", "AMQP is disabled: use LocalBroker(queues=True)")

    @property
    def management_url(self) -> str:
        """The URL of the management interface of queues, as in `http://127.0.0.1:40125`."""
        return self._url("management_url", "AMQP is disabled: use LocalBroker(queues=True)")

    @property
    def metrics_url(self) -> str:
        """The URL for Prometheus to scrape, as in `http://127.0.0.1:40126/metrics`."""
        return self._url(
            "metrics_url", "metrics are disabled: set metrics.port to -1 for a free port"
        )

    @property
    def data(self) -> str:
        """The folder that holds its data."""
        return self._settings.data

    def start(self) -> Self:
        """Start it, and return when clients can connect."""
        self._started = Future()
        self._thread = threading.Thread(target=self._run, name="strom-broker", daemon=True)
        self._thread.start()
        try:
            self._ready = self._started.result(START_SECONDS)
        except TimeoutError:
            if self._started.done():
                raise  # an error of the broker's own
            raise RuntimeError(f"the broker did not start within {START_SECONDS} seconds") from None
        return self

    def stop(self) -> None:
        """Stop it cleanly, and remove its temporary folder."""
        with contextlib.suppress(RuntimeError):  # the loop has already ended
            self._ask_to_stop()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._ready = None
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(self._serve())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)  # raised by start()

    async def _serve(self) -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        self._ask_to_stop = lambda: loop.call_soon_threadsafe(stop.set)
        node = Node(self._settings)
        self._started.set_result(await node.start())
        await stop.wait()
        await node.stop()


def _ports(queues: bool) -> dict[str, str]:
    port = "-1" if queues else "0"
    return {"amqp.port": port, "amqp.management.port": port}
