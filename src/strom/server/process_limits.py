"""How many files this process may have open, and how many of them connections may take."""

import logging

log = logging.getLogger(__name__)

WANTED_OPEN_FILES = 65_536
SPARE_DESCRIPTORS = 16
"""Held open for the log, in case that connections come faster than they can be refused."""
METRICS_CONNECTIONS = 16
"""Of the metrics port. They take no slots: a broker at its limit of connections can still be scraped."""
OTHER_DESCRIPTORS = 64 + METRICS_CONNECTIONS
"""For all but segments and clients: the event loop, listeners, index files, folders, spares."""
FEWEST_CONNECTIONS = 8


def raise_open_file_limit() -> None:
    """Raise the soft limit as far as the system lets us: every partition and client needs a file."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_OPEN_FILES if hard == resource.RLIM_INFINITY else min(WANTED_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class ConnectionSlots:
    """How many connections may be open at once, over all listeners of the process."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.refused = 0
        """How many connections were not counted in."""
        self._taken: set[object] = set()

    def take(self, connection: object) -> bool:
        """Count a connection in; False if there are as many as may be."""
        if len(self._taken) >= self.limit:
            self.refused += 1
            return False
        self._taken.add(connection)
        return True

    def release(self, connection: object) -> None:
        """The connection is gone, or was never counted in."""
        self._taken.discard(connection)


def make_connection_slots(max_connections: int, segment_files: int) -> ConnectionSlots:
    """As many as wanted, but no more than leave the log its descriptors.

    `segment_files` is how many files the log may keep open.
    """
    try:
        import resource
    except ImportError:
        return ConnectionSlots(max_connections)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return ConnectionSlots(max_connections)
    available = max(FEWEST_CONNECTIONS, soft - segment_files - OTHER_DESCRIPTORS)
    if available < max_connections:
        log.info(
            "At most %d connections are accepted: the process may open %d files, of which %d are for "
            "the log. Raise `ulimit -n` for up to max.connections=%d.",
            available,
            soft,
            soft - available,
            max_connections,
        )
    return ConnectionSlots(min(max_connections, available))
