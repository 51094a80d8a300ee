"""Fetching: read now if there is enough, else wait until there is, or until time is up."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from strom.broker.partition import Partition
from strom.model.errors import ApiError, DirectoryOffline, ErrorCode
from strom.storage.region import Region
from strom.storage.transaction_index import AbortedTransaction


class TopicKey(NamedTuple):
    """How a fetch names a topic: by name up to version 12, by id from version 13 on."""

    name: str | None
    id: bytes | None


@dataclass(frozen=True)
class Wanted:
    """One partition of a fetch request."""

    topic: TopicKey
    partition: int
    offset: int
    max_bytes: int
    leader_epoch: int = -1


@dataclass(frozen=True)
class Fetched:
    """One partition of a fetch answer."""

    wanted: Wanted
    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    start_offset: int = -1
    aborted: tuple[AbortedTransaction, ...] = ()
    records: bytes | Region = b""


@dataclass(frozen=True)
class Limits:
    """What the client asked for as a whole."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    committed_only: bool = False


@dataclass
class Fetch:
    """A fetch request at work."""

    wanted: Sequence[Wanted]
    limits: Limits
    find: Callable[[Wanted], Partition]
    """The partition for what is wanted, or ApiError."""
    memory_free: Callable[[], int]
    """How many bytes an answer may take now, which may be fewer than when the request came."""
    waiting_on: list[Partition] = field(default_factory=list)

    def is_ready(self) -> bool:
        """Whether an answer now would hold enough, or has an error to tell."""
        missing = self.limits.min_bytes
        if missing <= 0 or not self.wanted:
            return True
        for wanted in self.wanted:
            try:
                log = self._checked(wanted).log
                if not log.start_offset <= wanted.offset <= log.end_offset:
                    return True
                missing -= log.bytes_after(
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
        """What there is now, within the limits; the first batch found is sent whatever its size.

        Only when the memory for answers is used up there is nothing, and the client asks again.
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

    def _read_one(self, wanted: Wanted, budget: int, *, at_least_one: bool) -> Fetched:
        try:
            partition = self._checked(wanted)
            log = partition.log
            chunk = log.read_lazily(
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

    def _checked(self, wanted: Wanted) -> Partition:
        partition = self.find(wanted)
        if partition.deleted:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition.check_leader_epoch(wanted.leader_epoch)
        return partition


class WaitingFetch:
    """A fetch that waits for records; the future gives its answer."""

    def __init__(self, fetch: Fetch, loop: asyncio.AbstractEventLoop) -> None:
        self._fetch = fetch
        self.answer: asyncio.Future[list[Fetched]] = loop.create_future()
        self.answer.add_done_callback(self._let_go)
        self._timer = loop.call_later(fetch.limits.max_wait_ms / 1000, self._complete)
        for wanted in fetch.wanted:
            partition = fetch.find(wanted)
            partition.wait_for_records(self)
            fetch.waiting_on.append(partition)

    def partition_changed(self) -> None:
        """A partition grew, or went away."""
        if not self.answer.done() and self._fetch.is_ready():
            self._complete()

    def _complete(self) -> None:
        if not self.answer.done():
            self.answer.set_result(self._fetch.read())

    def _let_go(self, _: object) -> None:
        # Also called when the connection went away and cancelled the future.
        self._timer.cancel()
        for partition in self._fetch.waiting_on:
            partition.stop_waiting(self)
