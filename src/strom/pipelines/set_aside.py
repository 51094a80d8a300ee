"""Which views of a run cannot go on, or wait to be retried; the others do not wait for them.

The reason lies in a file beside the manifest, so that every process that looks at the view can show it.
"""

import contextlib
import json
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from strom.pipelines.outages import BACKOFF
from strom.pipelines.views.manifests import Manifests

log = logging.getLogger(__name__)

FILE = "set-aside.json"


@dataclass
class _Waiting:
    attempts: int = 0
    until: float = 0.0
    reason: str = ""


@dataclass
class ViewStates:
    """The versions that are not at work, by view and number."""

    manifests: Manifests
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random
    reasons: dict[tuple[str, int], str] = field(default_factory=dict)
    """Why a version is set aside, until the run ends or another version is active."""
    _waiting: dict[tuple[str, int], _Waiting] = field(default_factory=dict)

    def is_ready(self, view: str, number: int) -> bool:
        """Whether a version can be given records now."""
        if (view, number) in self.reasons:
            return False
        waiting = self._waiting.get((view, number))
        return waiting is None or self.clock() >= waiting.until

    def retry_later(self, view: str, number: int, reason: str) -> None:
        """Leave a version alone for a while, longer with each failure in a row."""
        waiting = self._waiting.setdefault((view, number), _Waiting())
        if not waiting.attempts:
            log.warning("view %s waits, and is retried: %s", view, reason)
        waiting.until = self.clock() + BACKOFF.delay(waiting.attempts, self.chance())
        waiting.attempts += 1
        waiting.reason = reason

    def reason_to_wait(self, view: str, number: int) -> str | None:
        """Why a version is left alone for a while; None if it is not."""
        waiting = self._waiting.get((view, number))
        return waiting.reason if waiting else None

    def succeeded(self, view: str, number: int) -> None:
        """A version has taken in records."""
        if self._waiting.pop((view, number), None) is not None:
            log.warning("view %s goes on", view)

    def set_aside(self, view: str, number: int, reason: str) -> None:
        """Give a version no more records."""
        if (view, number) in self.reasons:
            return
        self.reasons[view, number] = reason
        log.error("view %s is set aside, and still served as it is: %s", view, reason)
        # A view that was dropped meanwhile has no folder, and must not get one again.
        with contextlib.suppress(OSError):
            mark = {"version": number, "reason": reason, "since_ms": time.time_ns() // 1_000_000}
            _path(self.manifests, view).write_text(json.dumps(mark), "utf-8")

    def forget(self, view: str) -> None:
        """A view was dropped: its numbers are those of other versions from now on."""
        self.reasons = {one: why for one, why in self.reasons.items() if one[0] != view}
        self._waiting = {one: why for one, why in self._waiting.items() if one[0] != view}


def forget_reason(manifests: Manifests, view: str) -> None:
    """A run begins, and tries the view again."""
    _path(manifests, view).unlink(missing_ok=True)


def reason_set_aside(manifests: Manifests, view: str) -> str | None:
    """Why the active version of a view got no further in the last run; None if it did."""
    try:
        mark = json.loads(_path(manifests, view).read_text("utf-8"))
        manifest = manifests.read(view)
        active = manifest.active if manifest else None
        return str(mark["reason"]) if mark["version"] == active else None
    except (OSError, ValueError, KeyError):
        return None  # it is for people only: a file that a crash has cut short is none


def _path(manifests: Manifests, view: str) -> Path:
    return manifests.view_folder(view) / FILE
