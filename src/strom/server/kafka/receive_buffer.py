"""A receive buffer that is reused, and grows only with the bytes that have arrived.

No sockets here: the connection gets room for the next bytes, reports how many were received, and takes
whole frames as views. A view is valid until the next bytes are received.

A frame larger than the initial buffer needs a grant of memory for all of it. Until then no more than
AHEAD_BYTES are held, so that a connection that waits for memory can give back all that it was granted.
"""

from strom.model.errors import ProtocolError

BASE_BYTES = 16 * 1024
"""The initial size of a buffer, to which it shrinks again."""
AHEAD_BYTES = 4 * BASE_BYTES
"""How much is read into a buffer that is large already before the size of the next frame is known."""
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
        self._granted = 0
        """How many bytes it may be larger than initially."""
        self._bytes = bytearray(BASE_BYTES)
        self._view = memoryview(self._bytes)
        self._start = 0
        self._end = 0
        self._unneeded = 0

    @property
    def is_empty(self) -> bool:
        """Whether all received bytes belong to frames that were taken."""
        return self._start == self._end

    @property
    def is_nearly_empty(self) -> bool:
        """Whether it can be shrunk: what it holds was received before a grant, or could have been."""
        return self._end - self._start <= AHEAD_BYTES

    @property
    def _whole(self) -> int:
        return LENGTH_BYTES + self.frame_size

    def writable(self) -> memoryview:
        """Room for the next bytes; while a large frame is received, for its bytes only."""
        if len(self._bytes) <= AHEAD_BYTES:
            return self._view[self._end :]
        whole = self._whole
        most = whole if AHEAD_BYTES < whole <= BASE_BYTES + self._granted else AHEAD_BYTES
        return self._view[self._end : min(len(self._bytes), self._start + most)]

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
        whole = LENGTH_BYTES + self.frame_size
        if whole > BASE_BYTES:
            self._unneeded = 0
        self._start += whole
        self.frame_size = 0

    def make_room(self) -> int:
        """Prepare for the next bytes; return the grant that is needed, or -1 if none is any more.

        A frame needs a grant when it has sent what fits without one: its declared size may be a lie.
        """
        if self._start == self._end:
            self._start = self._end = 0
            return self._count_unneeded() if self._granted else 0
        if self._start and (not self.frame_size or self._start + self._whole > len(self._bytes)):
            left = self._end - self._start
            self._view[:left] = self._view[self._start : self._end]
            self._start, self._end = 0, left
        if self._whole > BASE_BYTES + self._granted:
            return self._whole - BASE_BYTES if self._end - self._start >= BASE_BYTES else 0
        if self._end == len(self._bytes) < self._whole:
            self._resize(min(self._whole, len(self._bytes) * GROWTH))
        return 0

    def grant(self, extra: int) -> None:
        """Allow it to become larger by `extra` bytes than it was initially."""
        self._granted = extra
        self._unneeded = 0
        self.make_room()

    def shrink(self) -> None:
        """Return to the initial size, or to the little that was received of an ungranted frame."""
        self._granted = self._unneeded = 0
        if len(self._bytes) > BASE_BYTES:
            self._resize(max(BASE_BYTES, self._end - self._start))

    def _resize(self, size: int) -> None:
        resized = bytearray(size)
        view = memoryview(resized)
        left = self._end - self._start
        view[:left] = self._view[self._start : self._end]
        self._view.release()
        self._bytes, self._view = resized, view
        self._start, self._end = 0, left

    def _count_unneeded(self) -> int:
        self._unneeded += 1
        return -1 if self._unneeded >= SHRINK_AFTER else 0
