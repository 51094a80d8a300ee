"""The retry policy: exponential backoff with jitter and a cap, until a deadline or a number of attempts.

It only computes; `strom.supervision.retrying` sleeps.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

STEADY_S = 60.0
"""Seconds of running after which a component counts as healthy: its backoff is reset."""


@dataclass(frozen=True)
class RetryPolicy:
    """How long to wait between attempts, and when to give up; the defaults are those of Kafka's clients.

    Random numbers and the time are arguments, so that tests are deterministic and fast.
    """

    first_s: float = 0.05
    longest_s: float = 1.0
    jitter: float = 0.2
    """The largest fraction by which a delay is shortened, so that clients do not retry in step."""
    attempts: int | None = None
    deadline_s: float | None = None
    """Seconds after the first attempt within which another one may begin."""

    def delay(self, retry: int, chance: float) -> float:
        """Seconds before a retry, counted from 0; `chance`, from 0 to 1, is the jitter."""
        # 2**60 exceeds every cap, and much larger exponents would overflow a float.
        whole = min(self.longest_s, self.first_s * 2.0 ** min(retry, 60))
        return whole * (1 - self.jitter * chance)

    def delays(self, clock: Callable[[], float], chance: Callable[[], float]) -> Iterator[float]:
        """The delays after each failed attempt, the first of which is made now, until giving up."""
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
    """Delays between restarts of a component: they grow with each failure soon after a start."""

    policy: RetryPolicy
    failures: int = 0

    def delay(self, ran_s: float, chance: float) -> float:
        """Seconds before the next start of a component that ran for `ran_s` seconds."""
        if ran_s > STEADY_S:
            self.failures = 0
        self.failures += 1
        return self.policy.delay(self.failures - 1, chance)
