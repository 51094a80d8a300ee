"""Tracks views that are set aside or wait for a retry, so that other views continue.

The reason is stored in a file next to the manifest, so that any process can show it.
"""

import contextlib
import json
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from strom.pipelines.outages import BACKOFF, Outage
from strom.pipelines.views.manifests import Manifests

log = logging.getLogger(__name__)

FILE = "set-aside.json"


@dataclass
class ViewStates:
    """The versions that get no records, by view and number."""

    manifests: Manifests
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random
    reasons: dict[tuple[str, int], str] = field(default_factory=dict)
    """Why a version is set aside, until the run ends or another version becomes active."""
    _outages: dict[tuple[str, int], Outage] = field(default_factory=dict)
    _retry_at: dict[tuple[str, int], float] = field(default_factory=dict)

    def is_ready(self, view: str, number: int) -> bool:
        """Whether a version can process records now."""
        if (view, number) in self.reasons:
            return False
        return self.clock() >= self._retry_at.get((view, number), 0.0)

    def retry_later(self, view: str, number: int, reason: str) -> None:
        """Pause a version, with exponential backoff for consecutive failures."""
        outage = self._outages.setdefault(
            (view, number), Outage(f"view {view}", BACKOFF, self.chance)
        )
        self._retry_at[view, number] = self.clock() + outage.on_failure(reason)

    def retry_reason(self, view: str, number: int) -> str | None:
        """Why a version waits for a retry; None if it does not."""
        outage = self._outages.get((view, number))
        return outage.reason if outage else None

    def on_success(self, view: str, number: int) -> None:
        """A version has processed records."""
        if outage := self._outages.pop((view, number), None):
            outage.on_success()
            del self._retry_at[view, number]

    def set_aside(self, view: str, number: int, reason: str) -> None:
        """Stop a version until the end of the run, and store the reason."""
        if (view, number) in self.reasons:
            return
        self.reasons[view, number] = reason
        log.error("view %s is set aside; queries still see its last state: %s", view, reason)
        # A view that was dropped concurrently has no folder, which must not be recreated.
        with contextlib.suppress(OSError):
            mark = {"version": number, "reason": reason, "since_ms": time.time_ns() // 1_000_000}
            _path(self.manifests, view).write_text(json.dumps(mark), "utf-8")

    def forget(self, view: str) -> None:
        """Discard a dropped view: its version numbers will be reused."""
        self.reasons = {one: why for one, why in self.reasons.items() if one[0] != view}
        self._outages = {one: why for one, why in self._outages.items() if one[0] != view}
        self._retry_at = {one: at for one, at in self._retry_at.items() if one[0] != view}


def clear_reason(manifests: Manifests, view: str) -> None:
    """Remove the stored reason: a new run tries the view again."""
    _path(manifests, view).unlink(missing_ok=True)


def reason_set_aside(manifests: Manifests, view: str) -> str | None:
    """Why the active version of a view was set aside in the last run; None if it was not."""
    try:
        mark = json.loads(_path(manifests, view).read_text("utf-8"))
        manifest = manifests.read(view)
        active = manifest.active if manifest else None
        return str(mark["reason"]) if mark["version"] == active else None
    except (OSError, ValueError, KeyError):
        return None  # informational only: a torn file after a crash counts as none


def _path(manifests: Manifests, view: str) -> Path:
    return manifests.view_folder(view) / FILE
