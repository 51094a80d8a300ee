"""Producers that go on and on while the broker dies and comes back."""

import threading
import time
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Producer

from tests.crash.ledger import Ledger

BURST = 60
PAUSE_SECONDS = 0.02
FLUSH_SECONDS = 60
PROGRESS_SECONDS = 30


class Load:
    """One producer in a thread of its own, which writes down what it sends and what is answered."""

    def __init__(
        self, bootstrap_servers: str, topic: str, partitions: int, **settings: Any
    ) -> None:
        self.ledger = Ledger()
        self._topic = topic
        self._partitions = partitions
        self._stop = threading.Event()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="load")
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 2,
                "retries": 2**31 - 1,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "delivery.timeout.ms": 300_000,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "metadata.recovery.strategy": "none",  # the address stays: no need to look again
                "log_level": 0,
                **settings,
            }
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def wait_for_progress(self) -> None:
        """Return when something more has been acknowledged."""
        before = len(self.ledger.acked)
        deadline = time.monotonic() + PROGRESS_SECONDS
        while len(self.ledger.acked) == before:
            assert self._problem is None, self._problem
            assert time.monotonic() < deadline, "nothing is acknowledged any more"
            time.sleep(0.005)

    def finish(self) -> None:
        """Stop sending, and wait until everything is answered; raises what went wrong meanwhile."""
        self._stop.set()
        self._thread.join()
        if self._problem is not None:
            raise self._problem
        left = self._producer.flush(FLUSH_SECONDS)
        assert not left, f"{left} records were never answered"

    def _run(self) -> None:
        number = 0
        try:
            while not self._stop.wait(PAUSE_SECONDS):
                for _ in range(BURST):
                    number += 1
                    self._send(number)
                self._producer.poll(0)
        except BaseException as problem:  # noqa: BLE001 - raised again by finish()
            self._problem = problem

    def _send(self, number: int) -> None:
        partition = number % self._partitions
        value = b"%012d" % number + b"." * (number % 300)
        while True:
            try:
                self._producer.produce(
                    self._topic, value, partition=partition, on_delivery=self.ledger.note_answer
                )
            except BufferError:
                self._producer.poll(0.1)
                if self._stop.is_set():
                    return
            else:
                self.ledger.note_sent(partition, value)
                return
