"""Which uploads to drop when requests wait for the memory that they hold."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from strom.server.memory import MemoryPool
from strom.server.transport.drop_reason import DropReason
from strom.server.transport.reservation import Reservation

SLOWEST_BYTES_PER_SECOND = 1024 * 1024
"""The minimum speed at which a large request must arrive."""
OBSERVED_SECONDS = 2.0
"""How long an upload must have been too slow while others waited."""


class UploadingClient(Protocol):
    """The client's end of an upload."""

    received_bytes: int

    def drop(self, why: DropReason, reason: str) -> None:
        """Close the connection at once."""
        ...


@dataclass(frozen=True)
class Upload:
    """A request that has not arrived completely although it is read, and that holds memory."""

    client: UploadingClient
    reservation: Reservation


class SlowUploads:
    """Observes uploads while requests wait for memory. No clock here: the time is an argument."""

    def __init__(self) -> None:
        self._seen: dict[UploadingClient, tuple[float, int]] = {}
        """Since when an upload is observed, and how many bytes its client had sent by then."""

    def drop(self, uploads: Iterable[Upload], now: float) -> None:
        """Drop the slowest, as many as hold what others wait for."""
        slow = self._observe(uploads, now)
        for upload in _as_needed(upload for _, upload in sorted(slow, key=lambda entry: entry[0])):
            upload.client.drop(
                DropReason.SLOW_UPLOAD,
                "its request arrives too slowly while others wait for memory; "
                "see queued.max.request.bytes",
            )

    def _observe(self, uploads: Iterable[Upload], now: float) -> list[tuple[float, Upload]]:
        """The uploads that are too slow, with their rates."""
        before, self._seen = self._seen, {}
        slow = []
        for upload in uploads:
            received = upload.client.received_bytes
            since, received_by_then = before.get(upload.client, (now, received))
            if now - since >= OBSERVED_SECONDS:
                rate = (received - received_by_then) / (now - since)
                if rate < SLOWEST_BYTES_PER_SECOND:
                    slow.append((rate, upload))
                since, received_by_then = now, received
            self._seen[upload.client] = (since, received_by_then)
        return slow


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
