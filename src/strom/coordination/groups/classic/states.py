"""The states of a classic group, and the transitions between them."""

from enum import Enum


class GroupState(Enum):
    """The state of a group; the value is Kafka's name."""

    EMPTY = "Empty"
    """No members, but possibly committed offsets. A join begins the first rebalance."""
    PREPARING = "PreparingRebalance"
    """Members must rejoin; all joins get their responses together."""
    COMPLETING = "CompletingRebalance"
    """All members have joined and wait for the leader's assignments."""
    STABLE = "Stable"
    """All members have assignments. A join, a leave or a session timeout begins a rebalance."""
    DEAD = "Dead"
    """Deleted: no longer in the coordinator."""


LEGAL_TRANSITIONS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING, GroupState.DEAD}),
    GroupState.PREPARING: frozenset({GroupState.COMPLETING, GroupState.EMPTY}),
    GroupState.COMPLETING: frozenset({GroupState.STABLE, GroupState.PREPARING}),
    GroupState.STABLE: frozenset({GroupState.PREPARING}),
    GroupState.DEAD: frozenset(),
}
"""The transitions at run time. Replay may set any state."""
