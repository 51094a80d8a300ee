"""The clock, passed as an argument so that tests control the time."""

import time
from typing import Protocol


class Clock(Protocol):
    """The time in milliseconds, as in Kafka's timestamps."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 (UTC)."""
        ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
