"""What was measured, against what is to be reached; as lines and as a page."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple

HEAD = """# The speed of views

Written by `{command}` on {day}. {met} of {targets} targets met.

Producer, broker and Spark share the cores. Clicks are JSON of about 90 bytes in three partitions,
one in a thousand of them malformed, one in a hundred late. "By hand" is the same view in Spark
Structured Streaming, in update mode, with the RocksDB state store, in the same session over the same
topic. Freshness is the time from a record's arrival in the log until a query counts it in; it is taken
after a warm-up of {warm_s:.0f} s of the same stream, in which Java has compiled most of what runs.

{machine}

| | measured | target | |
| :-- | --: | --: | :-- |
"""


class Figure(NamedTuple):
    """One figure."""

    what: str
    value: float
    unit: str = ""
    target: float | None = None
    better: Literal["more", "less"] = "more"

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None where there is none."""
        if self.target is None:
            return None
        return self.value >= self.target if self.better == "more" else self.value < self.target

    def line(self) -> str:
        """As a line of the page."""
        verdict = {True: "met", False: "**not met**", None: ""}[self.met]
        sign = "≥" if self.better == "more" else "<"
        target = "" if self.target is None else f"{sign} {self._shown(self.target)}"
        return f"| {self.what} | {self._shown(self.value)} | {target} | {verdict} |"

    def _shown(self, value: float) -> str:
        number = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
        return f"{number} {self.unit}".strip()


def page(
    figures: Sequence[Figure], machine: Mapping[str, str], *, command: str, warm_s: float
) -> str:
    """All of it, as Markdown."""
    verdicts = [one.met for one in figures if one.met is not None]
    head = HEAD.format(
        command=command,
        day=datetime.now(UTC).date().isoformat(),
        met=sum(verdicts),
        targets=len(verdicts),
        warm_s=warm_s,
        machine="; ".join(f"{name}: {value}" for name, value in machine.items()) + ".",
    )
    return head + "\n".join(one.line() for one in figures) + "\n"
