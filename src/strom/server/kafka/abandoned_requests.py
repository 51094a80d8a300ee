"""Requests that go on although their clients have disconnected, because they may be amid a change.

An address may have a few that are not small. Then its next ones wait: a client that sends requests and
disconnects, as after a timeout, could otherwise have any number of them in progress.
"""

import asyncio
from collections import Counter
from functools import partial
from typing import Any

from strom.server.kafka.api import CloseCallbacks

MAX_ABANDONED = 64
"""The number of abandoned requests at which further requests of their address wait."""


class AbandonedRequests:
    """Counts abandoned requests by address, and makes the next ones of the address wait."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, dict[asyncio.Future[None], None]] = {}

    def watch(self, task: "asyncio.Task[Any]", host: str, on_close: CloseCallbacks) -> None:
        """Count a request from now on if its client disconnects before it has ended."""
        on_close.add(task, partial(self._abandon, task, host))
        task.add_done_callback(on_close.remove)

    async def wait(self, host: str, on_close: CloseCallbacks) -> None:
        """Return when the current task may begin a request; it is cancelled if the client disconnects."""
        if self._running[host] < MAX_ABANDONED and host not in self._waiting:
            return
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - called by the task of a request
        waiter: asyncio.Future[None] = task.get_loop().create_future()
        on_close.add(waiter, task.cancel)
        del task  # a cancelled task keeps its traceback, which would refer to it
        waiting = self._waiting.setdefault(host, {})
        waiting[waiter] = None
        try:
            await waiter
        finally:
            waiting.pop(waiter, None)
            on_close.remove(waiter)

    def _abandon(self, task: "asyncio.Task[Any]", host: str) -> None:
        self._running[host] += 1
        task.add_done_callback(lambda _: self._ended(host))

    def _ended(self, host: str) -> None:
        self._running[host] -= 1
        if not self._running[host]:
            del self._running[host]
        self._serve(host)

    def _serve(self, host: str) -> None:
        """Let the next one begin; others in turns of their own, because each does a slice at once."""
        waiting = self._waiting.get(host)
        if waiting and self._running[host] < MAX_ABANDONED:
            waiter = next(iter(waiting))
            del waiting[waiter]
            if not waiter.done():
                waiter.set_result(None)
            waiter.get_loop().call_soon(self._serve, host)
        elif waiting is not None and not waiting:
            del self._waiting[host]
