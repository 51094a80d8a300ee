"""The end of the event loop's turn, where everything that gathered is done at once.

First dead letters go on to other queues, then messages are written to their logs, then which are gone,
and only then what consumers get is sent. So a client never sees what the logs do not know.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from strom.model.errors import DirectoryOffline

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0


class Sender(Protocol):
    """Has something to send."""

    def flush(self) -> None: ...


class Writable(Protocol):
    """Has something to write."""

    def write_messages(self) -> None: ...

    def write_progress(self) -> None:
        """Then write which are gone."""
        ...


class PublisherBlock:
    """Whether publishers are held back, and who has to know."""

    def __init__(self) -> None:
        self.reason: str | None = None
        """Why no messages are accepted now."""
        self.listeners: list[Callable[[str | None], None]] = []

    def set(self, reason: str | None) -> None:
        """Hold publishers back for a reason, or no longer."""
        self.reason = reason
        for listener in self.listeners:
            listener(reason)


class TickBatcher:
    """Gathers what is to be done. `on_offline` is called when the data directory is."""

    def __init__(
        self, block: PublisherBlock, on_offline: Callable[[DirectoryOffline], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._block = block
        self._on_offline = on_offline
        self._first: dict[Sender, None] = {}
        self._stores: dict[Writable, None] = {}
        self._senders: dict[Sender, None] = {}
        self._is_due = False
        self._failing: dict[Writable, None] = {}

    def send_first(self, sender: Sender) -> None:
        """Have what was gathered sent before anything is written: it leads to writes."""
        self._first[sender] = None
        self._soon()

    def write_later(self, store: Writable) -> None:
        """Have the store written."""
        self._stores[store] = None
        self._soon()

    def send_later(self, sender: Sender) -> None:
        """Have what was gathered sent."""
        self._senders[sender] = None
        self._soon()

    def _soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self.end)

    def failed(self, store: Writable, error: Exception) -> None:
        """The disk refuses a store's writes: hold publishers back, and retry."""
        if not self._failing:
            log.warning("A queue cannot be written, which is retried: %s", error)
            self._block.set("low on disk")
            self._loop.call_later(RETRY_SECONDS, self._retry)
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
