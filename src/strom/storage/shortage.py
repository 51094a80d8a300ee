"""Says once that a data directory refuses writes for want of something, and once that it is over."""

import logging
import threading
import time
from collections.abc import Callable

from strom.storage.files import Files, is_out_of_descriptors, is_out_of_space

logger = logging.getLogger(__name__)

QUIET_SECONDS = 1.0
"""Writes are accepted again when none was refused for so long: small ones may still find room before."""
ENOUGH_BYTES = 1024 * 1024
"""A disk with less than this left is still full."""


class Shortage:
    """Whether writes are being refused for want of space, descriptors or memory; any thread."""

    def __init__(
        self, files: Files, path: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.is_on = False
        self._files = files
        self._path = path
        self._clock = clock
        self._of_space = False
        self._last_refused = 0.0
        self._lock = threading.Lock()

    def refused(self, error: OSError) -> None:
        """A write was refused."""
        with self._lock:
            self._last_refused = self._clock()
            self._of_space = is_out_of_space(error)
            if self.is_on:
                return
            self.is_on = True
        logger.error(
            "Writes to %s are refused: %s (%s). Consumers can go on reading. %s Writes are then "
            "accepted again, without a restart.",
            self._path,
            error.strerror,
            self._space_left(),
            _what_to_do(error),
        )

    def write_succeeded(self) -> None:
        """A write was not refused; when the shortage is over, say so."""
        with self._lock:
            if not self.is_on or self._clock() - self._last_refused < QUIET_SECONDS:
                return
            if self._of_space and self._free_bytes() < ENOUGH_BYTES:
                return
            self.is_on = False
        logger.info("Writes to %s are accepted again (%s).", self._path, self._space_left())

    def _free_bytes(self) -> int:
        try:
            return self._files.space(self._path).free
        except OSError:
            return 0

    def _space_left(self) -> str:
        try:
            space = self._files.space(self._path)
        except OSError as error:
            return f"free space unknown: {error.strerror}"
        return f"{space.free} of {space.total} bytes are free"


def _what_to_do(error: OSError) -> str:
    if is_out_of_space(error):
        return "Free space on that file system, or in its quota."
    if is_out_of_descriptors(error):
        return "Raise the limit on open files (`ulimit -n`), or close connections."
    return "Free memory on this machine."
