"""The retry policy: exponential backoff with jitter, capped."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """How long to wait between attempts. The caller brings the random number, so tests need no luck."""

    first_s: float
    longest_s: float

    def delay(self, attempt: int, chance: float) -> float:
        """Seconds before retry number `attempt`, counted from 0; `chance`, from 0 to 1, is the jitter.

        Half of the delay is fixed, so that a retry never follows at once. The other half is random:
        clients that lost the same server do not come back in step.
        """
        # 2**60 is beyond every cap, and a larger exponent would overflow a float in the end.
        whole = min(self.longest_s, self.first_s * 2.0 ** min(attempt, 60))
        return whole * (1 - chance / 2)
