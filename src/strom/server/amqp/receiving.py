"""The receive buffer of an AMQP connection: it grows with its use, up to the largest frame."""

SMALL_BYTES = 16 * 1024
LARGE_BYTES = 256 * 1024


class FrameBuffer:
    """Bytes of one connection; [start, end) are not handled yet."""

    __slots__ = ("_bytes", "end", "start", "view")

    def __init__(self) -> None:
        self._bytes = bytearray(SMALL_BYTES)
        self.view = memoryview(self._bytes)
        self.start = 0
        self.end = 0

    @property
    def room(self) -> int:
        return len(self._bytes) - self.end

    def writable(self) -> memoryview:
        """Where the next bytes go."""
        return self.view[self.end :]

    def received(self, count: int) -> None:
        self.end += count

    def make_room(self, wanted: int) -> None:
        """Move unhandled bytes to the front, and grow, so that `wanted` bytes fit."""
        left = self.end - self.start
        size = len(self._bytes)
        if self.end == size and size < LARGE_BYTES:
            wanted = max(wanted, size * 4)  # one read filled it: a busy client
        if wanted > size:
            self._bytes = bytearray(max(wanted, min(size * 4, LARGE_BYTES)))
            fresh = memoryview(self._bytes)
            fresh[:left] = self.view[self.start : self.end]
            self.view = fresh
        elif self.start and left:
            self.view[:left] = self.view[self.start : self.end]
        self.start, self.end = 0, left
