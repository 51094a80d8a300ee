"""The end of the event loop's turn, where collected work is done in one batch.

First dead letters are published to other queues, then messages are written to their logs, then their
removals, and only then deliveries and confirms are sent. So a client never sees what is not in the logs.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from strom.model.errors import DirectoryOffline
from strom.model.retries import RetryPolicy

log = logging.getLogger(__name__)

RETRY = RetryPolicy(first_s=1.0)


class Flusher(Protocol):
    def flush(self) -> None: ...


class Writable(Protocol):
    def write_messages(self) -> None: ...

    def write_progress(self) -> None:
        """Called after `write_messages`: write which messages are removed."""
        ...


class PublisherBlock:
    """Whether publishers are blocked, and the callbacks for a change."""

    def __init__(self) -> None:
        self.reason: str | None = None
        """Why publishers are blocked; None if they are not."""
        self.listeners: list[Callable[[str | None], None]] = []

    def set(self, reason: str | None) -> None:
        """Block publishers for a reason, or unblock them with None."""
        self.reason = reason
        for listener in self.listeners:
            listener(reason)


class TickBatcher:
    """Collects work; `on_offline` is called when the data directory goes offline."""

    def __init__(
        self, block: PublisherBlock, on_offline: Callable[[DirectoryOffline], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._block = block
        self._on_offline = on_offline
        self._first: dict[Flusher, None] = {}
        self._stores: dict[Writable, None] = {}
        self._senders: dict[Flusher, None] = {}
        self._is_due = False
        self._failing: dict[Writable, None] = {}

    def send_first(self, sender: Flusher) -> None:
        """Flush it at the end of the turn before anything is written: it leads to writes."""
        self._first[sender] = None
        self._soon()

    def write_later(self, store: Writable) -> None:
        """Write the store at the end of the turn."""
        self._stores[store] = None
        self._soon()

    def send_later(self, sender: Flusher) -> None:
        """Flush it at the end of the turn, after all writes."""
        self._senders[sender] = None
        self._soon()

    def _soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self.end)

    def failed(self, store: Writable, error: Exception) -> None:
        """Block publishers and retry: the disk refuses a store's writes."""
        if not self._failing:
            log.warning("Could not write a queue, which is retried: %s", error)
            self._block.set("low on disk")
            self._loop.call_later(RETRY.delay(0, 0), self._retry)
        self._failing[store] = None

    def _retry(self) -> None:
        stores, self._failing = self._failing, {}
        try:
            for store in stores:
                store.write_messages()
                store.write_progress()
        except DirectoryOffline as error:
            self._on_offline(error)
            return
        if not self._failing:
            self._block.set(None)

    def end(self) -> None:
        """Do all of it."""
        self._is_due = False
        first, self._first = self._first, {}
        for sender in first:
            sender.flush()
        stores, self._stores = self._stores, {}
        try:
            for store in stores:
                store.write_messages()
            for store in stores:
                store.write_progress()
        except DirectoryOffline as error:
            self._on_offline(error)
        senders, self._senders = self._senders, {}
        for sender in senders:
            sender.flush()
