"""Logs once that a data directory rejects writes for lack of resources, and once that it is over."""

import logging
import threading
import time
from collections.abc import Callable

from strom.storage.files import FileSystem, is_out_of_descriptors, is_out_of_space

logger = logging.getLogger(__name__)

QUIET_SECONDS = 1.0
"""How long no write must fail before the shortage is over: small writes may succeed in between."""
ENOUGH_BYTES = 1024 * 1024
"""A disk with less free space counts as full."""


class Shortage:
    """Whether writes fail for lack of space, descriptors or memory. Thread-safe."""

    def __init__(
        self, files: FileSystem, path: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.is_on = False
        self._files = files
        self._path = path
        self._clock = clock
        self._of_space = False
        self._last_failure = 0.0
        self._lock = threading.Lock()

    def on_write_failed(self, error: OSError) -> None:
        with self._lock:
            self._last_failure = self._clock()
            self._of_space = is_out_of_space(error)
            if self.is_on:
                return
            self.is_on = True
        logger.error(
            "Writes to %s are rejected: %s (%s). Consumers can still read. %s Writes are then "
            "accepted again without a restart.",
            self._path,
            error.strerror,
            self._space_left(),
            _what_to_do(error),
        )

    def on_write_succeeded(self) -> None:
        """Note a successful write; logs when the shortage is over."""
        with self._lock:
            if not self.is_on or self._clock() - self._last_failure < QUIET_SECONDS:
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
        return "Free space on that file system, or raise its quota."
    if is_out_of_descriptors(error):
        return "Raise the limit on open files (`ulimit -n`), or close connections."
    return "Free memory on this machine."
