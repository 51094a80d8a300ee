"""A clock that stands still until a test moves it."""


class ManualClock:
    """A `strom.model.clock.Clock` whose time only the test advances."""

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = start_ms

    def now_ms(self) -> int:
        """Milliseconds since 1970 (UTC)."""
        return self._now_ms

    def advance(self, ms: int) -> None:
        """Advance the time; ValueError for a negative step."""
        if ms < 0:
            raise ValueError("time does not go back")
        self._now_ms += ms
