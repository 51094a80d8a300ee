"""Group commit: one fsync serves every append that waits for it.

Appends only mark their partition as dirty. At the end of the event loop's tick all dirty partitions go
to a thread that syncs their files; meanwhile, further appends collect for the next round. So the number
of syncs depends on the speed of the disk, not on the number of requests.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from time import perf_counter
from typing import NamedTuple, Protocol

from strom.metrics.instruments import SIZES, HistogramCounts
from strom.metrics.storage import FlushReading
from strom.model.errors import ApiError

SYNCS_AT_ONCE = 4
"""How many files are synced concurrently: several take little more time than one."""


class Sync(Protocol):
    """Files to sync, as `Log.begin_flush` returns them."""

    def sync(self) -> None:
        """Return when the bytes are on disk. May run on any thread."""
        ...


class Flushable(Protocol):
    """A partition that can be flushed."""

    def begin_flush(self) -> Sync | None:
        """What to sync for everything appended so far."""
        ...

    def finish_flush(self, done: Sync) -> None:
        """Apply a flush that is on disk."""
        ...

    def abandon_flush(self, refused: Sync, error: ApiError) -> None:
        """Give up a flush that failed for a temporary reason, such as a full disk."""
        ...


class _Work(NamedTuple):
    """One partition's part of a round."""

    partition: Flushable
    sync: Sync


class _Outcome(NamedTuple):
    """The result of a round."""

    done: list[_Work]
    refused: list[tuple[_Work, ApiError]]
    failure: Exception | None


class _SyncResult(NamedTuple):
    """How long one partition's sync took, and what it raised."""

    seconds: float
    error: Exception | None


class GroupCommit:
    """Syncs dirty partitions in rounds, off the event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_failure: Callable[[Exception], None],
        most_at_once: int = 1000,
    ) -> None:
        """A round has at most `most_at_once` partitions, because each keeps a file open."""
        self._loop = loop
        self._on_failure = on_failure
        self._most_at_once = most_at_once
        self._dirty: dict[Flushable, None] = {}
        self._round_is_due = False
        self._round_runs = False
        self._failed = False
        self._appends = 0
        self._flush_seconds = HistogramCounts()
        self._round_partitions = HistogramCounts(SIZES)
        self._idle = asyncio.Event()
        self._idle.set()
        self._waiting_for_round: list[asyncio.Future[None]] = []
        self._work: queue.SimpleQueue[list[_Work] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="strom-group-commit", daemon=True)
        self._thread.start()

    def mark_dirty(self, partition: Flushable) -> None:
        """Sync the partition in the next round."""
        self._dirty[partition] = None
        self._appends += 1
        if not self._round_is_due and not self._round_runs:
            self._round_is_due = True
            self._idle.clear()
            self._loop.call_soon(self._start_round)

    def flushes(self) -> FlushReading:
        """For metrics: what was synced, and how long that took."""
        return FlushReading(
            self._flush_seconds.read(), self._round_partitions.read(), self._appends
        )

    async def finish_round(self) -> None:
        """Return when all syncs that have begun by now have ended."""
        if self._round_runs:
            finished: asyncio.Future[None] = self._loop.create_future()
            self._waiting_for_round.append(finished)
            await finished

    async def finish_all(self) -> None:
        """Return when no partition is dirty."""
        await self._idle.wait()

    async def stop(self) -> None:
        """Sync all dirty partitions and end the thread."""
        await self._idle.wait()
        self._work.put(None)
        await asyncio.to_thread(self._thread.join)

    def _start_round(self) -> None:
        self._round_is_due = False
        dirty = list(islice(self._dirty, self._most_at_once))
        for partition in dirty:
            del self._dirty[partition]
        try:
            work = [] if self._failed else _begin(dirty)
        except Exception as error:  # noqa: BLE001 - after any error, nothing may be acknowledged
            self._fail(error)
            work = []
        if work:
            self._round_runs = True
            self._work.put(work)
        elif self._dirty:
            self._round_is_due = True
            self._loop.call_soon(self._start_round)
        else:
            self._idle.set()

    def _finish_round(self, outcome: _Outcome) -> None:
        self._round_runs = False
        try:
            if outcome.failure is not None:
                raise outcome.failure
            for partition, sync in outcome.done:
                partition.finish_flush(sync)
            for (partition, sync), refusal in outcome.refused:
                partition.abandon_flush(sync, refusal)
        except Exception as error:  # noqa: BLE001 - after any error, nothing may be acknowledged
            self._fail(error)
        waiting, self._waiting_for_round = self._waiting_for_round, []
        for finished in waiting:
            if not finished.done():
                finished.set_result(None)
        if self._dirty:
            self._start_round()
        else:
            self._idle.set()

    def _fail(self, error: Exception) -> None:
        # After a failed fsync it is unknown what is on disk: no retry, and no acknowledgement.
        self._failed = True
        self._dirty.clear()
        self._on_failure(error)

    def _run(self) -> None:
        with ThreadPoolExecutor(SYNCS_AT_ONCE, thread_name_prefix="strom-sync") as threads:
            while (work := self._work.get()) is not None:
                outcome = self._sync(work, threads)
                try:
                    self._loop.call_soon_threadsafe(self._finish_round, outcome)
                except RuntimeError:
                    return  # the loop was closed: no request is left to respond to

    def _sync(self, work: list[_Work], threads: ThreadPoolExecutor) -> _Outcome:
        # One file is synced right here: handing it to another thread would only cost time.
        results = [_sync_one(work[0])] if len(work) == 1 else threads.map(_sync_one, work)
        self._round_partitions.observe(len(work))
        outcome = _Outcome([], [], None)
        for item, (seconds, error) in zip(work, results, strict=True):
            self._flush_seconds.observe(seconds)
            if error is None:
                outcome.done.append(item)
            elif isinstance(error, ApiError):
                outcome.refused.append((item, error))
            else:
                outcome = outcome._replace(failure=error)
        return outcome


def _begin(dirty: Iterable[Flushable]) -> list[_Work]:
    return [
        _Work(partition, sync)
        for partition in dirty
        if (sync := partition.begin_flush()) is not None
    ]


def _sync_one(item: _Work) -> _SyncResult:
    began = perf_counter()
    try:
        item.sync.sync()
    except Exception as error:  # noqa: BLE001 - after any error, nothing may be acknowledged
        return _SyncResult(perf_counter() - began, error)
    return _SyncResult(perf_counter() - began, None)
