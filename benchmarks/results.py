"""What a run measures, as plain values that can be kept in a file."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple


class Measurement(NamedTuple):
    """One figure of one round."""

    area: str
    """Which module took it: `throughput`, `latency`, …"""
    case: str
    """What was done, in words: `100 B, lz4, 12 partitions`."""
    metric: str
    """The key of a `Metric` in `comparison`."""
    variant: str
    """The key of a `Variant` in `peers`."""
    round: int
    value: float


@dataclass(frozen=True)
class Run:
    """One run of the benchmark: where, when, how, and everything it measured."""

    date: str
    command: str
    machine: dict[str, str]
    measurements: list[Measurement] = field(default_factory=list)

    def values(self, area: str, case: str, metric: str, variant: str) -> dict[int, float]:
        """The figures of one thing by round."""
        wanted = (area, case, metric, variant)
        return {one.round: one.value for one in self.measurements if one[:4] == wanted}

    def cases(self, area: str) -> list[tuple[str, str]]:
        """The cases of an area with their metrics, in the order in which they were measured."""
        return list(
            dict.fromkeys((one.case, one.metric) for one in self.measurements if one.area == area)
        )

    def areas(self) -> list[str]:
        """What was measured, in order."""
        return list(dict.fromkeys(one.area for one in self.measurements))

    def with_measurements(self, measurements: Iterable[Measurement]) -> "Run":
        """The same run with these figures added."""
        everything = [*self.measurements, *measurements]
        return Run(self.date, self.command, self.machine, everything)


def save(run: Run, path: Path) -> None:
    """Keep a run in a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_json(run))


def load(path: Path) -> Run:
    """A run that was kept."""
    content = json.loads(path.read_text())
    content["measurements"] = [Measurement(*one) for one in content["measurements"]]
    return Run(**content)


def to_json(run: Run) -> str:
    """A run as JSON text."""
    return json.dumps(asdict(run), indent=1, ensure_ascii=False) + "\n"
