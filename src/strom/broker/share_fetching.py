"""Share fetches with long polling: acquire now if possible, else wait for records or the timeout."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from strom.broker.fetching import ChangesOfMany, ResponseMemory
from strom.broker.share_sessions import ShareSession, TopicIdPartition
from strom.broker.shared_partition import SharedPartition
from strom.coordination.groups.share.partitions.acquisition import Acquired, AcquireLimits
from strom.model.errors import ApiError, DirectoryOffline, ErrorCode
from strom.model.steps import Steps, run_at_once
from strom.storage.region import Region


@dataclass(frozen=True)
class ShareFetched:
    """One partition of a response: acquired records, or an error."""

    partition: TopicIdPartition
    acquired: list[Acquired] = field(default_factory=list)
    records: bytes | Region = b""
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(frozen=True)
class ShareLimits:
    """The limits of the whole request."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    acquire: AcquireLimits


@dataclass
class ShareFetch:
    """A share fetch in progress."""

    session: ShareSession
    limits: ShareLimits
    find: Callable[[TopicIdPartition], SharedPartition]
    """Finds the share partition, or raises ApiError."""
    memory: ResponseMemory

    def poll(self) -> list[ShareFetched] | None:
        """The response, if there is enough for one now."""
        return run_at_once(self.poll_steps())

    def poll_steps(self) -> Steps[list[ShareFetched] | None]:
        """The same for many partitions."""
        partitions = list(self.session.partitions)
        yield from self._begin(partitions)
        if not (yield from self._has_records(partitions)):
            return None
        if self.limits.min_bytes > 1 and not (yield from self._is_enough(partitions)):
            return None
        return (yield from self.read_steps()) or None

    def must_search(self) -> bool:
        """Whether `poll` may take long with few partitions, too: use `poll_steps`."""
        for partition in self.session.partitions:
            with suppress(ApiError):
                if self.find(partition).must_search:
                    return True
        return False

    def _begin(self, partitions: list[TopicIdPartition]) -> Steps[None]:
        for partition in partitions:
            yield None
            with suppress(ApiError, DirectoryOffline):
                shared = self.find(partition)
                if shared.must_search:
                    yield from shared.begin_steps()

    def _has_records(self, partitions: list[TopicIdPartition]) -> Steps[bool]:
        """Whether there may be records to acquire, or an error."""
        for partition in partitions:
            try:
                if self.find(partition).has_records():
                    return True
            except ApiError:
                return True
            yield None
        return False

    def _is_enough(self, partitions: list[TopicIdPartition]) -> Steps[bool]:
        missing = self.limits.min_bytes
        for partition in partitions:
            try:
                missing -= self.find(partition).bytes_waiting(missing)
            except (ApiError, DirectoryOffline):
                return True
            if missing <= 0:
                return True
            yield None
        return False

    def read(self) -> list[ShareFetched]:
        """Acquire within the limits; the first batch is sent regardless of its size."""
        return run_at_once(self.read_steps())

    def read_steps(self) -> Steps[list[ShareFetched]]:
        """The same for many partitions."""
        acquire = self.limits.acquire
        answers: list[ShareFetched] = []
        taken_bytes = 0
        for partition in self.session.turn():
            # Acquired records would stay locked without a client.
            if acquire.max_records <= 0 or not self.session.is_open:
                break
            memory_free = self.memory.free
            fetched = self._read_one(
                partition,
                acquire,
                min(self.limits.max_bytes, memory_free) - taken_bytes,
                at_least_one=not taken_bytes and memory_free > 0,
            )
            if fetched is not None:
                answers.append(fetched)
                if not isinstance(fetched.records, Region):
                    self.memory.take(len(fetched.records))
                taken_bytes += len(fetched.records)
                taken = sum(one.last - one.first + 1 for one in fetched.acquired)
                acquire = acquire._replace(max_records=acquire.max_records - taken)
            yield None
        return answers

    def register_steps(self, changes: ChangesOfMany) -> Steps[None]:
        """Wait on the partitions; a missing one has no changes."""
        for partition in list(self.session.partitions):
            with suppress(ApiError):
                changes.add(self.find(partition))
            yield None

    def _read_one(
        self,
        partition: TopicIdPartition,
        acquire: AcquireLimits,
        budget: int,
        *,
        at_least_one: bool,
    ) -> ShareFetched | None:
        try:
            shared = self.find(partition)
            handout = shared.acquire(
                self.session.key.member, acquire, max(0, budget), at_least_one=at_least_one
            )
        except ApiError as error:
            return ShareFetched(partition, error=error.code, message=error.message)
        except DirectoryOffline:
            return ShareFetched(partition, error=ErrorCode.KAFKA_STORAGE_ERROR)
        if not handout.acquired:
            return None
        self.session.touched[partition] = None
        return ShareFetched(partition, handout.acquired, handout.records)


class WaitingShareFetch:
    """A share fetch that waits for records; the future has its response."""

    def __init__(self, fetch: ShareFetch, loop: asyncio.AbstractEventLoop) -> None:
        self._fetch = fetch
        self._waiting_on: list[SharedPartition] = []
        self.answer: asyncio.Future[list[ShareFetched]] = loop.create_future()
        self.answer.add_done_callback(self._on_done)
        self._timer = loop.call_later(fetch.limits.max_wait_ms / 1000, self._on_timeout)
        for partition in fetch.session.partitions:
            with suppress(ApiError):  # a missing partition has no changes
                shared = fetch.find(partition)
                shared.wait_for_records(self)
                self._waiting_on.append(shared)

    def partition_changed(self) -> None:
        """Check again: records were appended or released, or the partition was deleted."""
        if not self.answer.done():
            found = self._fetch.poll()
            if found is not None:
                self.answer.set_result(found)

    def _on_timeout(self) -> None:
        if not self.answer.done():
            self.answer.set_result(self._fetch.read())

    def _on_done(self, _: object) -> None:
        # Also called when the connection was closed and the future cancelled.
        self._timer.cancel()
        for shared in self._waiting_on:
            shared.stop_waiting(self)
