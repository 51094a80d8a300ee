"""The anomalies of a history: which there are, and those that a check has found."""

import enum
from collections import Counter
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from strom.testing.history.operations import Operation

KEPT_OF_EACH = 20
"""How many findings of each type are reported; the others are only counted."""


class Anomaly(enum.Enum):
    """The types of anomalies, with their names in Jepsen's reports on Kafka."""

    LOST_WRITE = "lost-write"
    """An acknowledged record was never read, though later records were."""
    UNSEEN = "unseen"
    """An acknowledged record was never read, nor any record after it."""
    DUPLICATE = "duplicate"
    """One record is at several offsets."""
    INCONSISTENT_OFFSETS = "inconsistent-offsets"
    """One offset holds several records."""
    ABORTED_READ = "aborted-read"
    """A record was read whose send failed or was aborted (G1a)."""
    INVENTED_READ = "invented-read"
    """A record was read that no client sent."""
    PRECOMMITTED_READ = "precommitted-read"
    """A transaction read its own record before it was committed."""
    POLL_SKIP = "poll-skip"
    """A consumer's next poll skipped existing records."""
    NONMONOTONIC_POLL = "nonmonotonic-poll"
    """A consumer's next poll went back without a seek or rebalance."""
    POLL_SKIP_WITHIN = "int-poll-skip"
    """One poll, or the polls of one transaction, skipped existing records."""
    NONMONOTONIC_POLL_WITHIN = "int-nonmonotonic-poll"
    """One poll, or the polls of one transaction, went back."""
    NONMONOTONIC_SEND = "nonmonotonic-send"
    """A later record of a producer has a lower offset than an earlier one."""
    NONMONOTONIC_SEND_WITHIN = "int-nonmonotonic-send"
    """The same within one transaction."""
    SEND_SKIP_WITHIN = "int-send-skip"
    """Records of other producers are between those of a transaction."""
    READ_CYCLE = "read-cycle"
    """Operations form a cycle of reads and real time (G1c)."""
    WRITE_CYCLE = "write-cycle"
    """Transactions form a cycle of offset order (G0)."""
    MIXED_CYCLE = "mixed-cycle"
    """Operations form a cycle of reads and offset order."""
    OFFSET_WENT_BACK = "offset-went-back"
    """A group fetched an offset lower than one that it had committed before."""
    ABORTED_OFFSET = "aborted-offset"
    """A group fetched an offset whose commit failed or was aborted."""
    TWO_OWNERS = "two-owners"
    """Two members of one generation own the same partition."""


KAFKA_ALLOWS = frozenset({Anomaly.SEND_SKIP_WITHIN, Anomaly.WRITE_CYCLE, Anomaly.MIXED_CYCLE})
"""Kafka's transactions write while they run, so their records interleave."""


class HistoryError(AssertionError):
    """A history with anomalies that are not allowed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One anomaly, and the operations that show it."""

    anomaly: Anomaly
    explanation: str
    operations: tuple[Operation, ...]

    def __str__(self) -> str:
        lines = [f"{self.anomaly.value}: {self.explanation}"]
        return "\n    ".join([*lines, *map(str, self.operations)])


@dataclass
class Verdict:
    """The findings of a check; `allowed` anomalies are recorded, but do not fail it."""

    operations: int = 0
    allowed: AbstractSet[Anomaly] = frozenset()
    findings: list[Finding] = field(default_factory=list)
    counts: Counter[Anomaly] = field(default_factory=Counter)

    def add(self, anomaly: Anomaly, explanation: str, operations: Iterable[Operation]) -> None:
        """Record a finding and count it."""
        self.counts[anomaly] += 1
        if self.counts[anomaly] <= KEPT_OF_EACH:
            self.findings.append(Finding(anomaly, explanation, tuple(operations)))

    @property
    def anomalies(self) -> frozenset[Anomaly]:
        """The anomalies that were found and are not allowed."""
        return frozenset(self.counts) - frozenset(self.allowed)

    @property
    def is_sound(self) -> bool:
        """Whether no anomaly was found that is not allowed."""
        return not self.anomalies

    def explain(self) -> str:
        """A report of all anomalies, as text."""
        if self.is_sound:
            return f"No anomaly in this history of {self.operations} operations."
        wrong = self.anomalies
        counted = ", ".join(
            f"{kind.value} ({self.counts[kind]})" for kind in Anomaly if kind in wrong
        )
        reported = [str(finding) for finding in self.findings if finding.anomaly in wrong]
        return "\n".join([f"Of {self.operations} operations: {counted}", *reported])

    def raise_if_wrong(self) -> None:
        """HistoryError with the explanation, unless the history is sound."""
        if not self.is_sound:
            raise HistoryError(self.explain())
