"""robots.txt (RFC 9309), by protego: which pages of a site a crawler may visit, and how often."""

from collections.abc import Iterator
from typing import Final

from protego import Protego

MAX_BYTES: Final = 500 * 1024
"""RFC 9309, section 2.5, requires crawlers to parse at least 500 KiB; the rest is ignored."""
_ANY_AGENT: Final = "*"
_OTHER_AGENTS: Final = "\0"
_SITE: Final = "http://site"
"""protego matches whole addresses: a path that begins with two slashes alone would be a host."""


class Robots:
    """The rules of a site's robots.txt for one user agent."""

    def __init__(self, text: str, agent: str) -> None:
        self._agent = agent.partition("/")[0].strip().lower()
        self._rules = Protego.parse("\n".join(_relevant_lines(text, self._agent)))
        self.delay = self._rules.crawl_delay(self._agent)
        """Seconds between two visits, if the site sets Crawl-delay."""

    def allows(self, path: str) -> bool:
        """Whether a path with its query may be visited: the longest matching rule decides."""
        # A lone surrogate, as a page's link may hold it, cannot be encoded.
        url = _SITE + path.encode("utf-8", "replace").decode()
        return self._rules.can_fetch(url, self._agent)


def _relevant_lines(text: str, agent: str) -> Iterator[str]:
    """The lines with all agents but this one and `*` under one name.

    protego copies each rule to every agent of its group, so a hostile file of 500 kB would become
    hundreds of millions of rules; and it matches agents by prefix (`str` matches `strom`), where the
    standard compares whole names.
    """
    for line in text.splitlines():
        name, colon, value = line.partition("#")[0].partition(":")
        if not colon:
            continue
        if name.strip().lower().replace("-", "").replace(" ", "") == "useragent":
            named = value.strip().lower()
            yield f"user-agent: {named if named in {agent, _ANY_AGENT} else _OTHER_AGENTS}"
        else:
            yield f"{name}:{value}"
