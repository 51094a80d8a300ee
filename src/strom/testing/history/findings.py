"""The result of a check: what was found, in words, with the operations that show it."""

from collections import Counter
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from strom.testing.history.anomalies import Anomaly
from strom.testing.history.operations import Operation

KEPT_OF_EACH = 20
"""A broken broker breaks much: of each kind the first few are told, the others only counted."""


class HistoryError(AssertionError):
    """A history that no sound broker could have given."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, and who took part in it."""

    anomaly: Anomaly
    explanation: str
    operations: tuple[Operation, ...]

    def __str__(self) -> str:
        lines = [f"{self.anomaly.value}: {self.explanation}"]
        return "\n    ".join([*lines, *map(str, self.operations)])


@dataclass
class Verdict:
    """What a check found; `allowed` kinds are told but do not count against the history."""

    operations: int = 0
    allowed: AbstractSet[Anomaly] = frozenset()
    findings: list[Finding] = field(default_factory=list)
    counts: Counter[Anomaly] = field(default_factory=Counter)

    def add(self, anomaly: Anomaly, explanation: str, operations: Iterable[Operation]) -> None:
        """Note one finding."""
        self.counts[anomaly] += 1
        if self.counts[anomaly] <= KEPT_OF_EACH:
            self.findings.append(Finding(anomaly, explanation, tuple(operations)))

    @property
    def anomalies(self) -> frozenset[Anomaly]:
        """The kinds that were found and are not allowed."""
        return frozenset(self.counts) - frozenset(self.allowed)

    @property
    def is_sound(self) -> bool:
        """Whether nothing was found that is not allowed."""
        return not self.anomalies

    def explain(self) -> str:
        """Everything that is wrong, in words."""
        if self.is_sound:
            return f"Nothing is wrong with this history of {self.operations} operations."
        wrong = self.anomalies
        counted = ", ".join(
            f"{kind.value} ({self.counts[kind]})" for kind in Anomaly if kind in wrong
        )
        told = [str(finding) for finding in self.findings if finding.anomaly in wrong]
        return "\n".join([f"Of {self.operations} operations: {counted}", *told])

    def raise_if_wrong(self) -> None:
        """HistoryError with the explanation, unless the history is sound."""
        if not self.is_sound:
            raise HistoryError(self.explain())
