"""The retry policy: exponential backoff with jitter and a cap, until a deadline or a number of attempts.

It only computes. What sleeps is in `strom.supervision.retrying`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

STEADY_S = 60.0
"""What has run for this long before it failed is healthy: its backoff starts over."""


@dataclass(frozen=True)
class RetryPolicy:
    """How long to pause between attempts, and when to give up; the defaults are Kafka's clients' own.

    Random numbers and the time are arguments, so that tests need neither luck nor patience.
    """

    first_s: float = 0.05
    longest_s: float = 1.0
    jitter: float = 0.2
    """The largest part of a pause that is left out: clients of one server must not come back in step."""
    attempts: int | None = None
    deadline_s: float | None = None
    """Seconds after the first attempt in which another one may begin."""

    def delay(self, retry: int, chance: float) -> float:
        """Seconds before a retry, counted from 0; `chance`, from 0 to 1, is the jitter."""
        # 2**60 is beyond every cap, and a larger exponent would overflow a float in the end.
        whole = min(self.longest_s, self.first_s * 2.0 ** min(retry, 60))
        return whole * (1 - self.jitter * chance)

    def delays(self, clock: Callable[[], float], chance: Callable[[], float]) -> Iterator[float]:
        """The pauses between attempts, the first of which is made now, until it is time to give up."""
        # Not in the generator, which begins with its first `next`: after the first attempt.
        deadline = None if self.deadline_s is None else clock() + self.deadline_s
        return self._delays(deadline, clock, chance)

    def _delays(
        self, deadline: float | None, clock: Callable[[], float], chance: Callable[[], float]
    ) -> Iterator[float]:
        retry = 0
        while self.attempts is None or retry + 1 < self.attempts:
            pause = self.delay(retry, chance())
            if deadline is not None:
                left = deadline - clock()
                if left <= 0:
                    return
                pause = min(pause, left)  # one last attempt at the deadline itself
            yield pause
            retry += 1


@dataclass
class Restarts:
    """The pauses of something that is kept running: they grow with each failure soon after a start."""

    policy: RetryPolicy
    failures: int = 0

    def delay(self, ran_s: float, chance: float) -> float:
        """Seconds before the next start of what ran for so many seconds."""
        if ran_s > STEADY_S:
            self.failures = 0
        self.failures += 1
        return self.policy.delay(self.failures - 1, chance)
