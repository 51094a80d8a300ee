"""robots.txt (RFC 9309): which pages of a site a program may visit, and how often."""

from dataclasses import dataclass, field

MOST_BYTES = 500 * 1024
"""The standard asks for at least this much to be read; the rest is not looked at."""


@dataclass
class _Group:
    """The rules for some agents."""

    agents: list[str] = field(default_factory=list)
    rules: list[tuple[str, bool]] = field(default_factory=list)
    delay: float | None = None


class Robots:
    """What a site's robots.txt says to one agent."""

    def __init__(self, text: str, agent: str) -> None:
        self._rules, self.delay = _for_agent(_groups(text), agent)
        """`delay`: seconds between two visits, if the site asks for it."""

    def allows(self, path: str) -> bool:
        """Whether a path, with its query, may be visited: the longest rule that fits decides."""
        fitting = [(len(pattern), allow) for pattern, allow in self._rules if _fits(pattern, path)]
        return max(fitting, default=(0, True))[1]


def _groups(text: str) -> list[_Group]:
    groups: list[_Group] = []
    among_agents = False
    for line in text.splitlines():
        name, colon, value = line.partition("#")[0].partition(":")
        name, value = name.strip().lower(), value.strip()
        if not colon:
            continue
        if name == "user-agent":
            if not among_agents:
                groups.append(_Group())
            groups[-1].agents.append(value.lower())
            among_agents = True
        elif name in {"allow", "disallow", "crawl-delay"} and groups:
            among_agents = False
            _add(groups[-1], name, value)
    return groups


def _add(group: _Group, name: str, value: str) -> None:
    if name == "crawl-delay":
        try:
            group.delay = max(0.0, float(value))
        except ValueError:
            return
    elif value:  # an empty rule says nothing
        group.rules.append((value, name == "allow"))


def _for_agent(groups: list[_Group], agent: str) -> tuple[list[tuple[str, bool]], float | None]:
    """All rules that name the agent; those for everyone, if none does."""
    product = agent.partition("/")[0].strip().lower()
    named = [group for group in groups if product in group.agents]
    chosen = named or [group for group in groups if "*" in group.agents]
    delays = [group.delay for group in chosen if group.delay is not None]
    return [rule for group in chosen for rule in group.rules], max(delays, default=None)


def _fits(pattern: str, path: str) -> bool:
    """Whether a rule's pattern begins the path; * stands for anything, $ for the end."""
    first, *others = pattern.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    place = len(first)
    last = others.pop() if others and pattern.endswith("$") else None
    for part in others:
        place = path.find(part, place)
        if place < 0:
            return False
        place += len(part)
    if last is not None:
        return path.endswith(last) and len(path) - len(last) >= place
    return place == len(path) if pattern.endswith("$") else True
