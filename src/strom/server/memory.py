"""Memory that the connections of a listener share, so that no number of them can exhaust the process.

A request reserves its declared size before more than its first bytes are read. One that holds memory
needs no more of it, so requests that hold memory never wait for each other.
"""

from collections.abc import Callable

LARGEST_SHARE = 0.75
"""How much of a pool the connections from one address may hold together."""

Callback = Callable[[], None]


class MemoryPool:
    """Counts bytes in flight by address; connections that get none wait, the addresses take turns."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.in_use = 0
        self._share = int(capacity * LARGEST_SHARE)
        self._held: dict[str, int] = {}
        self._waiting: dict[str, dict[Callback, int]] = {}
        """By address, the next to be served first; those of an address in the order of their arrival."""
        self.is_full = False
        """Whether the next to be served waits for other addresses, and not for its own share."""

    @property
    def free(self) -> int:
        """The number of bytes that can still be taken."""
        return max(0, self.capacity - self.in_use)

    def free_for(self, host: str, size: int) -> int:
        """How many bytes an address can still take for what has `size` already, those included."""
        others = self._held.get(host, 0) - size
        most = self._share - others if others > 0 else self.capacity
        return max(0, min(self.free + size, most))

    @property
    def is_wanted(self) -> bool:
        return bool(self._waiting)

    def wanted_from(self, host: str) -> int:
        """How many bytes are waited for that connections from this address could give back."""
        if not self.is_full:
            return sum(self._waiting.get(host, {}).values())
        return sum(sum(sizes.values()) for sizes in self._waiting.values())

    def take(self, size: int, host: str) -> bool:
        """Take bytes; False if there are too few, or others wait for some."""
        if self.is_full or host in self._waiting or not self._fits(size, host):
            return False
        self.force_take(size, host)
        return True

    def force_take(self, size: int, host: str) -> None:
        """Take bytes that are already used, even beyond the capacity; others wait for them."""
        self.in_use += size
        self._held[host] = self._held.get(host, 0) + size

    def wait(self, size: int, host: str, callback: Callback) -> None:
        """Take the bytes, at most the capacity, when it is their turn; then call back."""
        if host not in self._waiting and not self._exceeds_share(size, host):
            self.is_full = True
        self._waiting.setdefault(host, {})[callback] = size

    def give(self, size: int, host: str) -> None:
        """Return bytes, and serve the connections that wait."""
        self.in_use -= size
        self._held[host] -= size
        if not self._held[host]:
            del self._held[host]
        self._serve()

    def forget(self, host: str, callback: Callback) -> None:
        """Remove a connection that waits, if it does."""
        sizes = self._waiting.get(host, {})
        if sizes.pop(callback, None) is None:
            return
        if not sizes:
            del self._waiting[host]
        self._serve()

    def _exceeds_share(self, size: int, host: str) -> bool:
        """Whether an address must wait for its own connections; if it has none, any size is allowed."""
        held = self._held.get(host, 0)
        return held > 0 and held + size > self._share

    def _fits(self, size: int, host: str) -> bool:
        return self.in_use + size <= self.capacity and not self._exceeds_share(size, host)

    def _serve(self) -> None:
        """Grant what fits, one request of each address in turn; a large one is not overtaken for ever."""
        self.is_full = False
        served = True
        while served and not self.is_full:
            served = False
            for host in tuple(self._waiting):
                callback, size = next(iter(self._waiting[host].items()))
                if self._exceeds_share(size, host):
                    continue
                if self.in_use + size > self.capacity:
                    self.is_full = True
                    break
                self._grant(host, callback, size)
                served = True

    def _grant(self, host: str, callback: Callback, size: int) -> None:
        sizes = self._waiting.pop(host)
        del sizes[callback]
        if sizes:
            self._waiting[host] = sizes  # behind the other addresses
        self.force_take(size, host)
        callback()


class NetworkMemory:
    """The memory of one listener.

    Small requests, large ones and unread responses have pools of their own: uploads of many megabytes
    delay no ordinary produce request, and neither of them delays a fetch. The receive buffers of AMQP
    connections have one beside them: a connection that holds a large buffer may wait for the memory of
    a message, but one that holds memory of a message never waits for a buffer.
    """

    def __init__(self, capacity: int, *, buffers: int = 0) -> None:
        self.capacity = capacity + buffers
        self.responses = MemoryPool(capacity // 4)
        self.buffers = MemoryPool(buffers)
        self._small = MemoryPool(capacity // 4)
        self._large = MemoryPool(capacity // 2)
        self._small_request = capacity // 128

    @property
    def in_use(self) -> int:
        requests = self._small.in_use + self._large.in_use
        return requests + self.responses.in_use + self.buffers.in_use

    @property
    def is_wanted(self) -> bool:
        """Whether a request waits."""
        return self._small.is_wanted or self._large.is_wanted or self.buffers.is_wanted

    @property
    def largest_request(self) -> int:
        return self._large.capacity

    def pool_of(self, size: int) -> MemoryPool:
        """The pool of requests of this size."""
        return self._small if size <= self._small_request else self._large
