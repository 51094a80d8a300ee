"""Fetching with long polling: read now if there is enough, else wait until there is, or until the
timeout.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, Self

from strom.broker.partition import Partition, RecordsWaiter
from strom.model.errors import ApiError, DirectoryOffline, ErrorCode
from strom.model.steps import Steps
from strom.storage.region import Region
from strom.storage.transaction_index import AbortedTransaction


class TopicKey(NamedTuple):
    """A topic in a fetch: by name up to version 12, by id since version 13 (KIP-516)."""

    name: str | None
    id: bytes | None


@dataclass(frozen=True)
class WantedPartition:
    """One partition of a fetch request."""

    topic: TopicKey
    partition: int
    offset: int
    max_bytes: int
    leader_epoch: int = -1


@dataclass(frozen=True)
class Fetched:
    """One partition of a fetch response."""

    wanted: WantedPartition
    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    start_offset: int = -1
    aborted: tuple[AbortedTransaction, ...] = ()
    records: bytes | Region = b""


@dataclass(frozen=True)
class FetchLimits:
    """The limits of the whole request."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    committed_only: bool = False


class ResponseMemory(Protocol):
    """The memory that a response may take."""

    @property
    def free(self) -> int:
        """How many bytes it may have now, which may be less than when the request arrived."""

    def take(self, size: int) -> None:
        """Bytes were read into memory."""


@dataclass
class Fetch:
    """A fetch request in progress."""

    wanted: Sequence[WantedPartition]
    limits: FetchLimits
    find: Callable[[WantedPartition], Partition]
    """Finds the partition, or raises ApiError."""
    memory: ResponseMemory
    waiting_on: list[Partition] = field(default_factory=list)

    def is_ready(self) -> bool:
        """Whether a response now would reach `min.bytes`, or has an error."""
        missing = self.limits.min_bytes
        if missing <= 0 or not self.wanted:
            return True
        for wanted in self.wanted:
            missing -= self._available(wanted, missing)
            if missing <= 0:
                return True
        return False

    def ready_steps(self) -> Steps[bool]:
        """The same for many partitions."""
        missing = self.limits.min_bytes
        if not self.wanted:
            return True
        for wanted in self.wanted:
            if missing <= 0:
                return True
            missing -= self._available(wanted, missing)
            yield None
        return missing <= 0

    def register_steps(self, changes: "ChangesOfMany") -> Steps[None]:
        """Wait on the partitions; one with an error makes the fetch ready instead."""
        for wanted in self.wanted:
            with suppress(ApiError):
                changes.add(self.find(wanted))
            yield None

    def _available(self, wanted: WantedPartition, missing: int) -> int:
        """The bytes in a partition, as far as they are missing; an error is worth a response, too."""
        try:
            log = self._checked(wanted).log
            if not log.start_offset <= wanted.offset <= log.end_offset:
                return missing
            return log.reader.bytes_after(
                wanted.offset,
                committed_only=self.limits.committed_only,
                limit=min(missing, wanted.max_bytes),
            )
        except (ApiError, DirectoryOffline):
            return missing

    def read(self) -> list[Fetched]:
        """The available batches within the limits; the first one is sent regardless of its size (KIP-74).

        Empty if the memory for responses is used up; the client then fetches again.
        """
        answers: list[Fetched] = []
        self._read_more(self.wanted, 0, answers)
        return answers

    def read_steps(self) -> Steps[list[Fetched]]:
        """The same for many partitions."""
        answers: list[Fetched] = []
        taken = 0
        for wanted in self.wanted:
            taken = self._read_more((wanted,), taken, answers)
            yield None
        return answers

    def _read_more(
        self, some: Sequence[WantedPartition], taken: int, answers: list[Fetched]
    ) -> int:
        """Read some partitions after others with `taken` bytes; returns the bytes of all."""
        memory_free = self.memory.free
        budget = min(self.limits.max_bytes, memory_free) - taken
        nothing_yet = not taken and memory_free > 0
        for wanted in some:
            fetched = self._read_one(wanted, budget, at_least_one=nothing_yet)
            if len(fetched.records):
                nothing_yet = False
                budget -= len(fetched.records)
                taken += len(fetched.records)
            if not isinstance(fetched.records, Region):
                self.memory.take(len(fetched.records))
            answers.append(fetched)
        return taken

    def _read_one(self, wanted: WantedPartition, budget: int, *, at_least_one: bool) -> Fetched:
        try:
            partition = self._checked(wanted)
            log = partition.log
            chunk = log.reader.read_lazily(
                wanted.offset,
                max(0, min(budget, wanted.max_bytes)),
                committed_only=self.limits.committed_only,
                at_least_one=at_least_one,
            )
        except ApiError as error:
            return Fetched(wanted, error=error.code)
        except DirectoryOffline:
            return Fetched(wanted, error=ErrorCode.KAFKA_STORAGE_ERROR)
        partition.bytes_out += len(chunk.data)
        return Fetched(
            wanted,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            start_offset=log.start_offset,
            aborted=chunk.aborted,
            records=chunk.data,
        )

    def _checked(self, wanted: WantedPartition) -> Partition:
        partition = self.find(wanted)
        if partition.deleted:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition.check_leader_epoch(wanted.leader_epoch)
        return partition


class WaitedFor(Protocol):
    """A partition, or a share partition."""

    def wait_for_records(self, waiter: RecordsWaiter) -> None: ...

    def stop_waiting(self, waiter: RecordsWaiter) -> None: ...


class ChangesOfMany:
    """Waits for a change of any of many partitions; use it as a context, and register first.

    Many changes at a time are one, because checking many partitions again takes long. It is in `waits`
    meanwhile, so that a stop can end it.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, max_wait_ms: int, waits: "set[ChangesOfMany]"
    ) -> None:
        self._loop = loop
        self._waits = waits
        self._until = loop.time() + max_wait_ms / 1000
        self._changed = asyncio.Event()
        self._waiting_on: list[WaitedFor] = []

    def __enter__(self) -> Self:
        self._waits.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._waits.discard(self)
        for partition in self._waiting_on:
            partition.stop_waiting(self)

    def add(self, partition: WaitedFor) -> None:
        partition.wait_for_records(self)
        self._waiting_on.append(partition)

    def partition_changed(self) -> None:
        self._changed.set()

    def end(self) -> None:
        """As if the time had passed."""
        self._until = self._loop.time()
        self._changed.set()

    async def wait(self) -> bool:
        """Return after a change; False if the time has passed.

        Also then if there are changes: producers could go on for as long as too few bytes arrive.
        """
        if self._loop.time() >= self._until:
            return False
        try:
            async with asyncio.timeout_at(self._until):
                await self._changed.wait()
        except TimeoutError:
            return False
        self._changed.clear()
        return self._loop.time() < self._until


class WaitingFetch:
    """A fetch that waits for records; the future has its response."""

    def __init__(self, fetch: Fetch, loop: asyncio.AbstractEventLoop) -> None:
        self._fetch = fetch
        self.answer: asyncio.Future[list[Fetched]] = loop.create_future()
        self.answer.add_done_callback(self._on_done)
        self._timer = loop.call_later(fetch.limits.max_wait_ms / 1000, self._complete)
        for wanted in fetch.wanted:
            partition = fetch.find(wanted)
            partition.wait_for_records(self)
            fetch.waiting_on.append(partition)

    def partition_changed(self) -> None:
        """Check again: a partition has new records, or was deleted."""
        if not self.answer.done() and self._fetch.is_ready():
            self._complete()

    def _complete(self) -> None:
        if not self.answer.done():
            self.answer.set_result(self._fetch.read())

    def _on_done(self, _: object) -> None:
        # Also called when the connection was closed and the future cancelled.
        self._timer.cancel()
        for partition in self._fetch.waiting_on:
            partition.stop_waiting(self)
