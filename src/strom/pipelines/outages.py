"""Work that fails for a while: retried with backoff, logged when that begins and when it is over."""

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from strom.model.retries import RetryPolicy
from strom.pipelines.failures import plain_reason

log = logging.getLogger(__name__)

BACKOFF = RetryPolicy(first_s=0.5, longest_s=30.0)


@dataclass
class Outage:
    """The failures in a row of one kind of work."""

    work: str
    backoff: RetryPolicy
    chance: Callable[[], float] = random.random
    reason: str | None = None
    """The last failure; None while the work succeeds."""
    since: datetime | None = None
    attempts: int = 0

    def failed(self, error: BaseException) -> float:
        """Note a failure; how many seconds to wait before the next attempt."""
        if not self.attempts:
            self.since = datetime.now().astimezone()
            log.warning("%s fails, and is retried: %s", self.work, plain_reason(error))
        self.reason = plain_reason(error)
        delay = self.backoff.delay(self.attempts, self.chance())
        self.attempts += 1
        return delay

    def over(self) -> None:
        """The work has succeeded."""
        if self.attempts:
            log.warning("%s works again, after %d failed attempts", self.work, self.attempts)
        self.reason, self.since, self.attempts = None, None, 0
