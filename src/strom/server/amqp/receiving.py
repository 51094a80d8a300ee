"""The receive buffer of an AMQP connection: small, or large while its client is granted memory for that.

There are two sizes only. So a connection that waits for the large one holds nothing that others wait for.
"""

SMALL_BYTES = 16 * 1024
LARGE_BYTES = 256 * 1024
"""Room for the largest frame, and for as much as one read returns."""
GROWTH_BYTES = LARGE_BYTES - SMALL_BYTES
"""What has to be granted for a large buffer."""


class FrameBuffer:
    """Bytes of one connection; [start, end) are not handled yet."""

    __slots__ = ("_bytes", "_peak", "end", "start", "view")

    def __init__(self) -> None:
        self._bytes = bytearray(SMALL_BYTES)
        self.view = memoryview(self._bytes)
        self.start = 0
        self.end = 0
        self._peak = 0
        """How many bytes it held at most since `is_needed` was last called."""

    @property
    def room(self) -> int:
        return len(self._bytes) - self.end

    @property
    def is_large(self) -> bool:
        return len(self._bytes) == LARGE_BYTES

    @property
    def is_full(self) -> bool:
        """Whether no more can be received before something is handled, or it grows."""
        return not self.start and self.end == len(self._bytes)

    @property
    def fits_small(self) -> bool:
        """Whether a small buffer has room for what is not handled, and for more."""
        return self.end - self.start < SMALL_BYTES

    def writable(self) -> memoryview:
        """Where the next bytes go."""
        return self.view[self.end :]

    def received(self, count: int) -> None:
        self.end += count
        if self.end > self._peak:
            self._peak = self.end

    def make_room(self) -> None:
        """Move unhandled bytes to the front."""
        left = self.end - self.start
        if self.start and left:
            self.view[:left] = self.view[self.start : self.end]
        self.start, self.end = 0, left

    def grow(self) -> None:
        """Become large; what was not handled is kept."""
        self._resize(LARGE_BYTES)

    def shrink(self) -> None:
        """Become small; only if it `fits_small`."""
        self._resize(SMALL_BYTES)

    def is_needed(self) -> bool:
        """Whether a small buffer would not have done since the last call."""
        peak, self._peak = self._peak, self.end
        return peak >= SMALL_BYTES

    def _resize(self, size: int) -> None:
        left = self.end - self.start
        resized = bytearray(size)
        view = memoryview(resized)
        view[:left] = self.view[self.start : self.end]
        self._bytes, self.view = resized, view
        self.start, self.end = 0, left
