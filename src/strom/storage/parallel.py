"""Syncs of many logs at once: a sync waits for the disk, and several take little more time than one."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

SYNC_THREADS = 16
LOGS_AT_ONCE = 256
"""Logs that are synced together; each has a file open meanwhile."""


def sync_all(syncs: Sequence[Callable[[], None]]) -> list[Exception | None]:
    """Run all syncs, also after one has failed; returns the error of each, in their order.

    A single one runs on the caller's thread.
    """
    if len(syncs) <= 1:
        return [_error_of(sync) for sync in syncs]
    with ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="strom-sync-all") as threads:
        return list(threads.map(_error_of, syncs))


def _error_of(sync: Callable[[], None]) -> Exception | None:
    try:
        sync()
    except Exception as error:  # noqa: BLE001 - the caller raises it when all have ended
        return error
    return None


def parts_of(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items in parts of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
