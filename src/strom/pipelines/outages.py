"""Retries work that fails with backoff, and logs the start and the end of the outage."""

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from strom.model.retries import RetryPolicy

log = logging.getLogger(__name__)

BACKOFF = RetryPolicy(first_s=0.5, longest_s=30.0)


@dataclass
class Outage:
    """Consecutive failures of a thread's work, or of one version of a view."""

    work: str
    backoff: RetryPolicy
    chance: Callable[[], float] = random.random
    reason: str | None = None
    """The last failure; None if the work succeeds."""
    since: datetime | None = None
    attempts: int = 0

    def on_failure(self, reason: str) -> float:
        """Record a failure; returns the delay before the next attempt in seconds."""
        if not self.attempts:
            self.since = datetime.now().astimezone()
            log.warning("%s failed and is retried: %s", self.work, reason)
        self.reason = reason
        delay = self.backoff.delay(self.attempts, self.chance())
        self.attempts += 1
        return delay

    def on_success(self) -> None:
        if self.attempts:
            log.warning("%s works again, after %d failed attempts", self.work, self.attempts)
        self.reason, self.since, self.attempts = None, None, 0
