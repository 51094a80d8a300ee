"""Which pages are visited next: a round's queue, with every site left in peace in between."""

from collections import deque
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Visit:
    """A page to visit."""

    url: str
    depth: int = 0
    """How many links it is away from where the round began."""
    attempt: int = 1

    @property
    def site(self) -> str:
        """The page's site: scheme, host and port."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def path(self) -> str:
        """The page's path and query on its site."""
        parts = urlsplit(self.url)
        return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


class Round:
    """The pages of one round, each once, no more than allowed."""

    def __init__(self, most_pages: int) -> None:
        self._waiting: deque[Visit] = deque()
        self._known: set[str] = set()
        self._most_pages = most_pages
        self._ready_at: dict[str, float] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, url: str, depth: int) -> None:
        """Have a page visited, unless it is known or there are too many."""
        if url not in self._known and len(self._known) < self._most_pages:
            self._known.add(url)
            self._waiting.append(Visit(url, depth))

    def again(self, visit: Visit) -> None:
        """Have a page visited once more, after all others."""
        self._waiting.append(Visit(visit.url, visit.depth, visit.attempt + 1))

    def wait(self, now: float) -> float:
        """Seconds until a page can be visited."""
        if not self._waiting:
            return 0.0
        sites = {visit.site for visit in self._waiting}
        return max(0.0, min(self._ready_at.get(site, 0.0) for site in sites) - now)

    def take(self, now: float) -> Visit | None:
        """The next page of a site that may be visited now."""
        for visit in self._waiting:
            if self._ready_at.get(visit.site, 0.0) <= now:
                self._waiting.remove(visit)
                return visit
        return None

    def leave_alone(self, site: str, until: float) -> None:
        """Visit no page of a site before then."""
        self._ready_at[site] = until
