"""The end of the event loop's turn, where everything that gathered is done at once.

First dead letters go on to other queues, then messages are written to their logs, then which are gone,
and only then what consumers get is sent. So a client never sees what the logs do not know.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from strom.broker.queues.store import QueueStore
from strom.model.errors import DirectoryOffline

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0


class Sender(Protocol):
    """Who has something to send."""

    def flush(self) -> None:
        """Send it."""
        ...


class Writable(Protocol):
    """What has something to write."""

    def write_messages(self) -> None:
        """Write messages."""
        ...

    def write_progress(self) -> None:
        """Then write which are gone."""
        ...


class TickBatcher:
    """Gathers what is to be done."""

    def __init__(
        self,
        before: Callable[[], None],
        need_topic: Callable[[QueueStore], None],
        blocked: Callable[[str | None], None],
        offline: Callable[[DirectoryOffline], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._before = before
        self._need_topic = need_topic
        self._blocked = blocked
        self._offline = offline
        self._stores: dict[Writable, None] = {}
        self._senders: dict[Sender, None] = {}
        self._is_due = False
        self._failing: dict[QueueStore, None] = {}

    def write_later(self, store: Writable) -> None:
        """Have the store written."""
        self._stores[store] = None
        self.soon()

    def send_later(self, sender: Sender) -> None:
        """Have what someone gathered sent."""
        self._senders[sender] = None
        self.soon()

    def soon(self) -> None:
        """Have a turn end."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self.end)

    def need_topic(self, store: QueueStore) -> None:
        """The store has too much for the memory."""
        self._need_topic(store)

    def failed(self, store: QueueStore, error: Exception) -> None:
        """The disk does not take a store's writes: hold publishers back, and try again."""
        if not self._failing:
            log.warning("A queue cannot be written, it is tried again: %s", error)
            self._blocked("low on disk")
            self._loop.call_later(RETRY_SECONDS, self._retry)
        self._failing[store] = None

    def _retry(self) -> None:
        stores, self._failing = self._failing, {}
        try:
            for store in stores:
                store.retry()
        except DirectoryOffline as error:
            self._offline(error)
            return
        if not self._failing:
            self._blocked(None)

    def end(self) -> None:
        """Do all of it."""
        self._is_due = False
        self._before()
        stores, self._stores = self._stores, {}
        try:
            for store in stores:
                store.write_messages()
            for store in stores:
                store.write_progress()
        except DirectoryOffline as error:
            self._offline(error)
        senders, self._senders = self._senders, {}
        for sender in senders:
            sender.flush()
