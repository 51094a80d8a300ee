"""Parses and compares schemas without the lock on the state.

A decision needs the state, which is locked, and slow results about schemas, which depend on texts only.
So a decision that lacks a result is abandoned; the result is computed without the lock, and the decision
is taken again, on the state as it is by then.
"""

from collections.abc import Callable, Hashable, Mapping
from contextvars import ContextVar
from typing import Any, TypeVar

from strom.registry.refusals import UNAVAILABLE, RestError

MAX_ATTEMPTS = 20
"""The limit on decisions for one request: each of a few steps needs results, and the state may change."""
Key = Hashable
Result = TypeVar("Result")
Decided = TypeVar("Decided")

_results: ContextVar[Mapping[Key, Any] | None] = ContextVar("results", default=None)
"""The results for the decision that is being taken; None where work is done at once."""


class WorkPostponed(Exception):
    """A decision needs results that have not been computed."""

    def __init__(self, jobs: Mapping[Key, Callable[[], Any]]) -> None:
        super().__init__("A decision needs slow work.")
        self.jobs = jobs


def results_of(jobs: Mapping[Key, Callable[[], Result]]) -> list[Result]:
    """The results of jobs; WorkPostponed if they are to be done without the lock."""
    known = _results.get()
    if known is None:
        return [job() for job in jobs.values()]
    missing = {key: job for key, job in jobs.items() if key not in known}
    if missing:
        raise WorkPostponed(missing)
    return [known[key] for key in jobs]


class SlowWork:
    """The results of slow work for one request."""

    def __init__(self) -> None:
        self._done: dict[Key, Any] = {}

    def decide(self, decision: Callable[[], Decided]) -> Decided:
        """The decision, which takes the lock itself; what it lacks is computed between attempts."""
        for _ in range(MAX_ATTEMPTS):
            token = _results.set(self._done)
            try:
                return decision()
            except WorkPostponed as postponed:
                jobs = postponed.jobs
            finally:
                _results.reset(token)
            for key, job in jobs.items():
                self._done[key] = job()
        raise RestError(UNAVAILABLE, "The subject changes too often at present. Retry later.")
