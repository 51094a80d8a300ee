"""How much memory the members of groups take, and how much they may.

Counted is what clients choose: subscriptions, metadata, ids, the assignments of a classic leader. What
the broker assigns is bounded by the partitions that exist.
"""

from collections.abc import Iterable

from strom.model.errors import ApiError, ErrorCode

ITEM_BYTES = 100
"""What every name and every piece of metadata takes besides its bytes, in round figures."""


def bytes_of(*items: str | bytes | None) -> int:
    """What these take in memory; nothing if they are empty."""
    return sum(ITEM_BYTES + len(item) for item in items if item)


def bytes_of_pairs(pairs: Iterable[tuple[str, bytes]]) -> int:
    """What names with their metadata take in memory."""
    return sum(ITEM_BYTES + len(name) + len(metadata) for name, metadata in pairs)


class GroupMemory:
    """The bytes of all groups of a coordinator, and their limits."""

    def __init__(self, max_group: int, max_total: int) -> None:
        self.in_use = 0
        self.capacity = max_total
        self._max_group = max_group
        self._held: dict[str, int] = {}

    def check(self, group: str, growth: int, when_full: ErrorCode) -> None:
        """GROUP_MAX_SIZE_REACHED if a group would become too large; `when_full` if all groups would.

        Clients take the first for fatal, as it is: the next attempt would be as large. The second must
        be one that they retry.
        """
        if growth <= 0:
            return
        if self._held.get(group, 0) + growth > self._max_group:
            raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        if self.in_use + growth > self.capacity:
            raise ApiError(when_full)

    def update(self, group: str, held: int) -> None:
        """Record how much a group takes now."""
        self.in_use += held - self._held.pop(group, 0)
        if held:
            self._held[group] = held
