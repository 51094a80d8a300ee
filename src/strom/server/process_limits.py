"""The limit of open files, and how many of them connections may use."""

import logging
from collections import Counter
from collections.abc import Mapping

from strom.model.address_limits import normalized_address
from strom.model.broker_settings import BrokerSettings
from strom.model.settings import INT_MAX

log = logging.getLogger(__name__)

WANTED_OPEN_FILES = 65_536
SPARE_DESCRIPTORS = 16
"""Reserved for the log, in case connections arrive faster than they can be refused."""
METRICS_CONNECTIONS = 16
"""Of the metrics port. They take no slots: a broker at its limit of connections can still be scraped."""
OTHER_DESCRIPTORS = 64 + METRICS_CONNECTIONS
"""For all but segments and connections: event loop, listeners, index files, directories, spares."""
FEWEST_CONNECTIONS = 8


def raise_open_file_limit() -> None:
    """Raise the soft limit as far as the system allows: every partition and client needs a file."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_OPEN_FILES if hard == resource.RLIM_INFINITY else min(WANTED_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


TOTAL = "max.connections"
PER_ADDRESS = "max.connections.per.ip"


class ConnectionSlots:
    """Limits the open connections over all listeners of the process, in total and by address."""

    def __init__(
        self,
        limit: int,
        per_address: int = INT_MAX,
        overrides: Mapping[str, int] | None = None,
    ) -> None:
        self.limit = limit
        self.refused = {TOTAL: 0, PER_ADDRESS: 0}
        """The number of refused connections, by the limit that they exceeded."""
        self._per_address = per_address
        self._overrides = overrides or {}
        self._taken: dict[object, str] = {}
        self._by_address: Counter[str] = Counter()

    def take(self, connection: object, host: str) -> bool:
        """Count a connection; False if a limit is reached."""
        address = normalized_address(host)
        if self._by_address[address] >= self._overrides.get(address, self._per_address):
            self.refused[PER_ADDRESS] += 1
            return False
        if len(self._taken) >= self.limit:
            self.refused[TOTAL] += 1
            return False
        self._taken[connection] = address
        self._by_address[address] += 1
        return True

    def release(self, connection: object) -> None:
        """Release the slot of a closed connection, if it had one."""
        address = self._taken.pop(connection, None)
        if address is not None:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]


def make_connection_slots(settings: BrokerSettings, segment_files: int) -> ConnectionSlots:
    """Up to `max.connections`, but leave the log the descriptors for `segment_files` open files."""
    return ConnectionSlots(
        _connection_limit(settings.max_connections, segment_files),
        settings.max_connections_per_ip,
        settings.connection_limits(),
    )


def _connection_limit(max_connections: int, segment_files: int) -> int:
    try:
        import resource
    except ImportError:
        return max_connections
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return max_connections
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
    return min(max_connections, available)
