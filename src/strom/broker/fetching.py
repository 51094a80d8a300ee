"""Fetching with long polling: read now if there is enough, else wait until there is, or until the
timeout.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from strom.broker.partition import Partition
from strom.model.errors import ApiError, DirectoryOffline, ErrorCode
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


@dataclass
class Fetch:
    """A fetch request in progress."""

    wanted: Sequence[WantedPartition]
    limits: FetchLimits
    find: Callable[[WantedPartition], Partition]
    """Finds the partition, or raises ApiError."""
    memory_free: Callable[[], int]
    """The bytes that a response may take now, which may be less than when the request arrived."""
    waiting_on: list[Partition] = field(default_factory=list)

    def is_ready(self) -> bool:
        """Whether a response now would reach `min.bytes`, or has an error."""
        missing = self.limits.min_bytes
        if missing <= 0 or not self.wanted:
            return True
        for wanted in self.wanted:
            try:
                log = self._checked(wanted).log
                if not log.start_offset <= wanted.offset <= log.end_offset:
                    return True
                missing -= log.reader.bytes_after(
                    wanted.offset,
                    committed_only=self.limits.committed_only,
                    limit=min(missing, wanted.max_bytes),
                )
            except (ApiError, DirectoryOffline):
                return True
            if missing <= 0:
                return True
        return False

    def read(self) -> list[Fetched]:
        """The available batches within the limits; the first one is sent regardless of its size (KIP-74).

        Empty if the memory for responses is used up; the client then fetches again.
        """
        memory_free = self.memory_free()
        budget = min(self.limits.max_bytes, memory_free)
        nothing_yet = memory_free > 0
        answers = []
        for wanted in self.wanted:
            fetched = self._read_one(wanted, budget, at_least_one=nothing_yet)
            if len(fetched.records):
                nothing_yet = False
                budget -= len(fetched.records)
            answers.append(fetched)
        return answers

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
