"""Which uploads to drop when requests wait for the memory that they hold.

A stalled upload is dropped first, and soon. The client of a request that waits for memory could go on
sending into the socket's buffer meanwhile. So if little is there once its request is read again, it has
been stalled for as long as it waited. Thus hundreds of stalled uploads, which wait for each other's
memory, are not observed for a second each.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Protocol, TypeAlias

from strom.server.memory import MemoryPool
from strom.server.transport.drop_reason import DropReason
from strom.server.transport.reservation import Reservation

SLOWEST_BYTES_PER_SECOND = 1024 * 1024
"""The minimum speed at which a large request must arrive."""
OBSERVED_SECONDS = 2.0
"""How long an upload must have been too slow while others waited."""
STALLED_SECONDS = 1.0
STALLED_BYTES_PER_SECOND = 4096
"""An upload that is slower for STALLED_SECONDS is stalled; any line is faster."""
SOCKET_BYTES = 16 * 1024
"""What a socket's buffer holds at least for a client whose request waits."""


class UploadingClient(Protocol):
    """The client's end of an upload."""

    received_bytes: int

    def drop(self, why: DropReason, reason: str) -> None:
        """Close the connection at once."""
        ...


@dataclass(frozen=True)
class Upload:
    """A request that has not arrived completely, and that holds memory or waits for it."""

    client: UploadingClient
    reservation: Reservation
    is_read: bool = True
    """False if its client keeps it from being read: it does not read responses, or has sent requests that
    are handled meanwhile."""


Rated: TypeAlias = tuple[float, Upload]
"""An upload with what came of it: bytes, or bytes per second."""


@dataclass
class _Observation:
    since: float
    received: int
    """How many bytes its client had sent by then."""
    has_waited: bool = False
    """Whether it waited for memory when it was last seen."""
    is_new: bool = False
    """Whether it was granted memory just before it was last seen."""

    def restart(self, now: float, received: int) -> None:
        self.since, self.received = now, received


@dataclass
class _Findings:
    stalled: list[Rated] = field(default_factory=list)
    slow: list[Rated] = field(default_factory=list)
    has_new: bool = False
    """Whether there are uploads that were granted memory just now: they may be stalled."""

    @property
    def slowest_first(self) -> list[Upload]:
        """The stalled uploads; if there are none, and will not be at once, those that are too slow."""
        found = self.stalled or ([] if self.has_new else self.slow)
        return [upload for _, upload in sorted(found, key=itemgetter(0))]


class SlowUploads:
    """Observes uploads while requests wait for memory. No clock here: the time is an argument."""

    def __init__(self) -> None:
        self._seen: dict[UploadingClient, _Observation] = {}

    def drop(self, uploads: Iterable[Upload], now: float) -> None:
        """Drop the slowest, as many as hold what others wait for."""
        for upload in _as_needed(self._observe(uploads, now).slowest_first):
            upload.client.drop(
                DropReason.SLOW_UPLOAD,
                "its request arrives too slowly while others wait for memory; "
                "see queued.max.request.bytes",
            )

    def forget(self) -> None:
        """No request waits any more: what was observed is no reason to drop an upload later."""
        self._seen.clear()

    def _observe(self, uploads: Iterable[Upload], now: float) -> _Findings:
        before, self._seen = self._seen, {}
        found = _Findings()
        for upload in uploads:
            client = upload.client
            seen = before.get(client) or _Observation(now, client.received_bytes)
            self._seen[client] = seen
            if upload.reservation.is_waiting:
                seen.has_waited = True
            elif seen.has_waited:
                # What is in the socket's buffer may not be received yet.
                seen.has_waited, seen.is_new, found.has_new = False, True, True
            else:
                _judge(upload, seen, now, found)
        return found


def _judge(upload: Upload, seen: _Observation, now: float, found: _Findings) -> None:
    """Decide about an upload that was read since it was last seen."""
    received = upload.client.received_bytes
    came, seconds = received - seen.received, now - seen.since
    is_stalled = came < min(seconds * STALLED_BYTES_PER_SECOND, SOCKET_BYTES)
    if seconds >= STALLED_SECONDS and is_stalled and upload.is_read:
        found.stalled.append((came, upload))
    elif seen.is_new and not is_stalled:
        # Its rate counts from now on: while it waited it could not be received.
        seen.is_new = False
        seen.restart(now, received)
    elif seconds >= OBSERVED_SECONDS:
        rate = came / seconds
        if rate < SLOWEST_BYTES_PER_SECOND:
            found.slow.append((rate, upload))
        seen.restart(now, received)


def _as_needed(slowest_first: Iterable[Upload]) -> list[Upload]:
    chosen: list[Upload] = []
    needed: dict[tuple[MemoryPool, str], int] = {}
    for upload in slowest_first:
        reservation = upload.reservation
        pool, host = reservation.pool, reservation.host
        # An address that has reached its share waits for its own connections only.
        key = (pool, "" if pool.is_full else host)
        if key not in needed:
            needed[key] = pool.wanted_from(host)
        if needed[key] > 0:
            needed[key] -= reservation.size
            chosen.append(upload)
    return chosen
