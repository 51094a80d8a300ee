"""A receive buffer that is reused, and grows only with the bytes that have arrived.

No sockets here: the connection gets room for the next bytes, reports how many were received, and takes
whole frames as views. A view is valid until the next bytes are received.
"""

from strom.model.errors import ProtocolError

BASE_BYTES = 16 * 1024
"""The initial size of a buffer, to which it shrinks again."""
LENGTH_BYTES = 4
GROWTH = 4
"""The growth factor of a full buffer. It never grows at once to a declared size, which may be a lie."""
SHRINK_AFTER = 16
"""A large buffer is released after it was emptied this often without being needed."""


class ReceiveBuffer:
    """Length-prefixed frames of one connection."""

    def __init__(self) -> None:
        self.frame_size = 0
        """Size of the frame being received, without its length field; 0 while that is incomplete."""
        self._bytes = bytearray(BASE_BYTES)
        self._view = memoryview(self._bytes)
        self._start = 0
        self._end = 0
        self._unneeded = 0

    @property
    def extra_bytes(self) -> int:
        """How much larger it is than initially."""
        return len(self._bytes) - BASE_BYTES

    @property
    def is_empty(self) -> bool:
        """Whether all received bytes belong to frames that were taken."""
        return self._start == self._end

    def writable(self) -> memoryview:
        """Room for the next bytes; while a large frame is received, for its bytes only."""
        if self.frame_size > BASE_BYTES:
            whole = self._start + LENGTH_BYTES + self.frame_size
            return self._view[self._end : min(len(self._bytes), whole)]
        return self._view[self._end :]

    def received(self, count: int) -> None:
        self._end += count

    def peek(self, limit: int) -> memoryview | None:
        """The next frame if it is complete; ProtocolError if it exceeds the limit."""
        available = self._end - self._start
        if not self.frame_size:
            if available < LENGTH_BYTES:
                return None
            length = self._view[self._start : self._start + LENGTH_BYTES]
            size = int.from_bytes(length, "big", signed=True)
            if size <= 0 or size > limit:
                raise ProtocolError(f"request size {size} is not in 1..{limit} bytes")
            self.frame_size = size
        if available < LENGTH_BYTES + self.frame_size:
            return None
        body = self._start + LENGTH_BYTES
        return self._view[body : body + self.frame_size]

    def take(self) -> None:
        """Consume the frame that was peeked at."""
        if self.frame_size > BASE_BYTES:
            self._unneeded = 0
        self._start += LENGTH_BYTES + self.frame_size
        self.frame_size = 0

    def make_room(self) -> int:
        """Prepare for the next bytes; return how many more it needs (`grow`), or can release (< 0)."""
        if self._start == self._end:
            self._start = self._end = 0
            return self._room_to_give_back()
        needed = LENGTH_BYTES + self.frame_size
        if self._start and (not self.frame_size or self._start + needed > len(self._bytes)):
            left = self._end - self._start
            self._view[:left] = self._view[self._start : self._end]
            self._start, self._end = 0, left
        if self._end < len(self._bytes):
            return 0
        return max(0, min(needed, len(self._bytes) * GROWTH) - len(self._bytes))

    def grow(self, extra: int) -> None:
        """Grow by `extra` bytes; received bytes are kept."""
        resized = bytearray(len(self._bytes) + extra)
        view = memoryview(resized)
        view[: self._end] = self._view[: self._end]
        self._view.release()
        self._bytes, self._view = resized, view
        self._unneeded = 0

    def _room_to_give_back(self) -> int:
        if not self.extra_bytes:
            return 0
        self._unneeded += 1
        return -self.extra_bytes if self._unneeded >= SHRINK_AFTER else 0
