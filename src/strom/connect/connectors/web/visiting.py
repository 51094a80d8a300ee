"""Which page is visited next: a round's queue, with a delay between two visits of a site."""

from collections import deque
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Visit:
    """A page in the queue."""

    url: str
    depth: int = 0
    """How many links it is away from a configured page."""
    attempt: int = 1

    @property
    def site(self) -> str:
        """The page's origin: scheme, host and port."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def path(self) -> str:
        """The page's path and query on its site."""
        parts = urlsplit(self.url)
        return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


class Round:
    """The pages of one round: each once, and at most so many."""

    def __init__(self, most_pages: int) -> None:
        self._waiting: deque[Visit] = deque()
        self._known: set[str] = set()
        self._most_pages = most_pages
        self._ready_at: dict[str, float] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, url: str, depth: int) -> None:
        """Queue a page, unless it was queued before or the round is full."""
        if url not in self._known and len(self._known) < self._most_pages:
            self._known.add(url)
            self._waiting.append(Visit(url, depth))

    def retry(self, visit: Visit) -> None:
        """Queue a page again, after all others."""
        self._waiting.append(Visit(visit.url, visit.depth, visit.attempt + 1))

    def wait(self, now: float) -> float:
        """Seconds until a page can be visited."""
        if not self._waiting:
            return 0.0
        sites = {visit.site for visit in self._waiting}
        return max(0.0, min(self._ready_at.get(site, 0.0) for site in sites) - now)

    def take(self, now: float) -> Visit | None:
        """Remove and return the next page whose site may be visited now."""
        for visit in self._waiting:
            if self._ready_at.get(visit.site, 0.0) <= now:
                self._waiting.remove(visit)
                return visit
        return None

    def delay_site(self, site: str, until: float) -> None:
        """Visit no page of a site before then."""
        self._ready_at[site] = until
