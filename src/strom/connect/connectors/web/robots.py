"""robots.txt (RFC 9309), by protego: which pages of a site a program may visit, and how often."""

from collections.abc import Iterator
from typing import Final

from protego import Protego

MOST_BYTES: Final = 500 * 1024
"""The standard asks for at least this much to be read; the rest is not looked at."""
_ANYONE: Final = "*"
_OTHERS: Final = "\0"
_SITE: Final = "http://site"
"""protego matches whole addresses; it takes a path that begins with two slashes for a host."""


class Robots:
    """What a site's robots.txt says to one agent."""

    def __init__(self, text: str, agent: str) -> None:
        self._agent = agent.partition("/")[0].strip().lower()
        self._rules = Protego.parse("\n".join(_relevant_lines(text, self._agent)))
        self.delay = self._rules.crawl_delay(self._agent)
        """Seconds between two visits, if the site asks for it."""

    def allows(self, path: str) -> bool:
        """Whether a path, with its query, may be visited: the longest rule that fits decides."""
        # Half of a surrogate pair, as a page's script may write it, cannot be encoded.
        url = _SITE + path.encode("utf-8", "replace").decode()
        return self._rules.can_fetch(url, self._agent)


def _relevant_lines(text: str, agent: str) -> Iterator[str]:
    """The lines with all agents but ours and `*` under one name.

    protego copies each rule to every agent of its group, so a hostile file of 500 kB would become
    hundreds of millions of rules; and it takes `str` for a name of `strom`, where the standard
    compares whole names.
    """
    for line in text.splitlines():
        name, colon, value = line.partition("#")[0].partition(":")
        if not colon:
            continue
        if name.strip().lower().replace("-", "").replace(" ", "") == "useragent":
            named = value.strip().lower()
            yield f"user-agent: {named if named in {agent, _ANYONE} else _OTHERS}"
        else:
            yield f"{name}:{value}"
