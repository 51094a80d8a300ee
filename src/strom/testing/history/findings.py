"""The result of a check: the anomalies, with the operations that show them."""

from collections import Counter
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from strom.testing.history.anomalies import Anomaly
from strom.testing.history.operations import Operation

KEPT_OF_EACH = 20
"""How many findings of each type are reported; the others are only counted."""


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
