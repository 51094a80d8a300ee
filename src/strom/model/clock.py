"""Time as an argument: whoever needs the time is given a clock."""

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time of day in milliseconds, as Kafka's timestamps count it."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 (UTC)."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 (UTC)."""
        return time.time_ns() // 1_000_000
