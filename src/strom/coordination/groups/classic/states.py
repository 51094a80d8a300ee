"""The states of a classic group, and the ways between them."""

from enum import Enum


class GroupState(Enum):
    """What a group is doing; the value is Kafka's name for it."""

    EMPTY = "Empty"
    """No members; perhaps committed offsets. A join begins the first rebalance."""
    PREPARING = "PreparingRebalance"
    """Members are asked to join again; all joins are answered together."""
    COMPLETING = "CompletingRebalance"
    """The joins are answered; the leader works out who gets what, and everyone waits for it."""
    STABLE = "Stable"
    """Everyone has a share. A join, a leave or a silent member begins the next rebalance."""
    DEAD = "Dead"
    """Deleted. Nobody finds it any more."""


LEGAL: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING, GroupState.DEAD}),
    GroupState.PREPARING: frozenset({GroupState.COMPLETING, GroupState.EMPTY}),
    GroupState.COMPLETING: frozenset({GroupState.STABLE, GroupState.PREPARING}),
    GroupState.STABLE: frozenset({GroupState.PREPARING}),
    GroupState.DEAD: frozenset(),
}
"""From where to where a living group may go. What is read from the log needs no leave."""
