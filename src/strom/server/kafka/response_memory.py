"""What responses may take of the listener's memory while they are read or encoded.

A response that is made in slices reserves what it has so far, because other requests are handled between
two slices: without that, each of many such responses would take what is free.
"""

import asyncio

from strom.model.errors import ProtocolError
from strom.model.settings import MIB
from strom.server.memory import MemoryPool

SMALL_RESPONSE = MIB
"""Smaller responses are encoded without a reservation; larger ones reserve as much at a time."""
ANY_ADDRESS = ""
"""For records that are read: clients of all addresses may fetch as long as there is memory."""


class UnreservedResponse:
    """The response is sent in the turn in which it is read."""

    def __init__(self, pool: MemoryPool) -> None:
        self._pool = pool

    @property
    def free(self) -> int:
        return self._pool.free

    def take(self, size: int) -> None:
        """Nothing has to be reserved."""


class ReservedResponse:
    """What the response of the current task takes of the pool, until it is sent or given up."""

    def __init__(self, pool: MemoryPool, host: str = ANY_ADDRESS) -> None:
        self._pool = pool
        self._host = host
        self._size = 0
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a response is read in slices by a task
        task.add_done_callback(self._give_back)

    @property
    def free(self) -> int:
        """How many bytes the response may have, those included that it has."""
        return self._pool.free + self._size

    def take(self, size: int) -> None:
        """Reserve bytes that were read."""
        if size:
            self._size += size
            self._pool.force_take(size, self._host)

    def _give_back(self, _: object) -> None:
        if self._size:
            self._pool.give(self._size, self._host)
            self._size = 0


class ResponseExceedsMemory(ProtocolError):
    """More than the memory that is free for responses: the connection of the client is closed."""


class EncodedResponse:
    """Reserves memory for what the current task encodes: a small request may have a huge response.

    For example if it names the same large group thousands of times. Clients of one address that do not
    read such responses leave memory for those of the others.
    """

    def __init__(self, pool: MemoryPool, host: str) -> None:
        self._pool = pool
        self._host = host
        self._reserved: ReservedResponse | None = None
        self._size = 0

    def on_growth(self, size: int) -> int:
        """Reserve memory for these bytes and as many as follow until the next call."""
        if size <= SMALL_RESPONSE:
            return SMALL_RESPONSE
        if self._reserved is None:
            self._reserved = ReservedResponse(self._pool, self._host)
        free = self._pool.free_for(self._host, self._size)
        if size > free:
            raise ResponseExceedsMemory(
                f"response of at least {size} bytes exceeds what is free for responses "
                f"(a quarter of queued.max.request.bytes: {self._pool.capacity} bytes)"
            )
        most = min(size + SMALL_RESPONSE, free)
        self._reserved.take(most - self._size)
        self._size = most
        return most
