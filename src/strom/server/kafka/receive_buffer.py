"""Bytes in, frames out: a receive buffer that is used again, and grows only with what has arrived.

No sockets here: the connection asks where the next bytes go, says how many came, and takes out whole
frames as views. A view is good until the next bytes are received.
"""

from strom.model.errors import ProtocolError

BASE_BYTES = 16 * 1024
"""What a buffer has from the start, and what it goes back to."""
LENGTH_BYTES = 4
GROWTH = 4
"""A buffer grows to this many times its size when it is full: never at once to what is declared."""
SHRINK_AFTER = 16
"""A large buffer is given back after it was emptied this often without being needed."""


class ReceiveBuffer:
    """Length-prefixed frames of one connection."""

    def __init__(self) -> None:
        self.frame_size = 0
        """Of the frame now being received, without its length; 0 if its length is not known yet."""
        self._bytes = bytearray(BASE_BYTES)
        self._view = memoryview(self._bytes)
        self._start = 0
        self._end = 0
        self._unneeded = 0

    @property
    def extra_bytes(self) -> int:
        """How much larger it is than at the start."""
        return len(self._bytes) - BASE_BYTES

    @property
    def is_empty(self) -> bool:
        """Whether every byte received was part of a frame that has been taken out."""
        return self._start == self._end

    def writable(self) -> memoryview:
        """Where the next bytes go: a small frame takes what comes, a large one only its own bytes."""
        if self.frame_size > BASE_BYTES:
            whole = self._start + LENGTH_BYTES + self.frame_size
            return self._view[self._end : min(len(self._bytes), whole)]
        return self._view[self._end :]

    def received(self, count: int) -> None:
        """So many bytes have been written there."""
        self._end += count

    def peek(self, limit: int) -> memoryview | None:
        """The next frame if all of it is there; ProtocolError if it is longer than allowed."""
        available = self._end - self._start
        if not self.frame_size:
            if available < LENGTH_BYTES:
                return None
            length = self._view[self._start : self._start + LENGTH_BYTES]
            size = int.from_bytes(length, "big", signed=True)
            if size <= 0 or size > limit:
                raise ProtocolError(f"a request of {size} bytes, where 1 to {limit} are allowed")
            self.frame_size = size
        if available < LENGTH_BYTES + self.frame_size:
            return None
        body = self._start + LENGTH_BYTES
        return self._view[body : body + self.frame_size]

    def take(self) -> None:
        """The frame that was peeked at is being handled."""
        if self.frame_size > BASE_BYTES:
            self._unneeded = 0
        self._start += LENGTH_BYTES + self.frame_size
        self.frame_size = 0

    def make_room(self) -> int:
        """Prepare for the next bytes; how many more the buffer needs (`grow`), or can spare (< 0)."""
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
        """Become larger; what was received stays."""
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
