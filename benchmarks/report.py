"""A run as tables: on the terminal, and as `docs/benchmarks.md`."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table as RichTable

from benchmarks.comparison import (
    COMPARISONS,
    GROWTH_LARGE,
    GROWTH_SMALL,
    Growth,
    Metric,
    Ratio,
    Row,
    Target,
    compare,
    growth,
)
from benchmarks.results import Run

TITLES = {
    "throughput": "Throughput through librdkafka, acks=all",
    "latency": "Small produce requests, acks=all, one in flight per connection",
    "startup": "Start-up",
    "memory": "Memory",
    "transactions": "Transactions through librdkafka",
    "rebalances": "Rebalances",
    "commits": "Commits of offsets",
    "share groups": "Share groups through Kafka's own performance tool",
}
COMPARED_HEADINGS = ("case", "measured", "strom", "Kafka", "ratio", "spread", "target", "")
GROWTH_HEADINGS = ("case", "measured", "small", "large", "ratio", "spread", "Kafka's", "target", "")
LEFT_ALIGNED = 2
"""The first columns are texts, the others figures."""


class Table(NamedTuple):
    """A table of texts."""

    title: str
    headings: Sequence[str]
    lines: list[Sequence[str]]


def tables(run: Run) -> Iterator[Table]:
    """Everything that a run has measured."""
    for area in run.areas():
        if area in (GROWTH_SMALL, GROWTH_LARGE):
            continue
        for comparison in COMPARISONS:
            rows = compare(run, area, comparison)
            if rows:
                title = f"{TITLES[area]}: {comparison.title}"
                yield Table(title, COMPARED_HEADINGS, [_compared_line(row) for row in rows])
    grown = growth(run)
    if grown:
        title = "Growth: strom with flush=os, and how Kafka's figures change"
        yield Table(title, GROWTH_HEADINGS, [_growth_line(row) for row in grown])


def _compared_line(row: Row) -> list[str]:
    return [
        row.case,
        _measured(row.metric),
        figure(row.ours),
        figure(row.theirs),
        f"{row.ratio.median:.2f}",
        spread(row.ratio),
        _target(row.target),
        row.verdict,
    ]


def _growth_line(row: Growth) -> list[str]:
    return [
        row.case,
        _measured(row.metric),
        figure(row.small),
        figure(row.large),
        f"{row.ratio.median:.2f}",
        spread(row.ratio),
        f"{row.kafka_ratio.median:.2f}" if row.kafka_ratio else "",
        _target(row.target),
        row.verdict,
    ]


def _measured(metric: Metric) -> str:
    return f"{metric.title}, {metric.unit}"


def _target(target: Target | None) -> str:
    return str(target) if target else ""


def figure(value: float) -> str:
    """A number with three digits that count, and thousands set apart."""
    if value >= 100:
        digits = max(0, len(str(int(value))) - 3)
        return f"{round(value, -digits):,.0f}"
    return f"{value:.3g}"


def spread(ratio: Ratio) -> str:
    """The smallest and the largest ratio of all rounds."""
    return f"{ratio.lowest:.2f}–{ratio.highest:.2f}"


def without_repeated_cases(lines: Sequence[Sequence[str]]) -> Iterator[Sequence[str]]:
    """The lines with the first column left empty where it says the same as above."""
    above = ""
    for line in lines:
        yield ["" if line[0] == above else line[0], *line[1:]]
        above = line[0]


def score(run: Run) -> str:
    """How many targets are met, in words."""
    verdicts = [line[-1] for table in tables(run) for line in table.lines if line[-1]]
    return f"{verdicts.count('met')} of {len(verdicts)} targets met"


def print_tables(run: Run, console: Console) -> None:
    """For the terminal."""
    for table in tables(run):
        shown = RichTable(title=table.title, title_justify="left", title_style="bold")
        for at, heading in enumerate(table.headings):
            shown.add_column(heading, justify="left" if at < LEFT_ALIGNED else "right")
        for line in without_repeated_cases(table.lines):
            style = {"met": "green", "not met": "red"}.get(line[-1], "")
            shown.add_row(*line[:-1], f"[{style}]{line[-1]}[/]" if style else "")
        console.print(shown)
    console.print(score(run))


def markdown(run: Run) -> str:
    """The text of `docs/benchmarks.md`."""
    parts = [
        "# strom beside Apache Kafka\n",
        f"Written by `{run.command}` on {run.date}. {score(run)}.\n",
        "\n".join(f"- {name}: {value}" for name, value in run.machine.items()) + "\n",
        EXPLANATION,
    ]
    for table in tables(run):
        parts.append(f"## {table.title}\n")
        parts.append(_markdown_table(table))
    return "\n".join(parts)


EXPLANATION = """\
Both brokers run side by side on the same machine, each with an empty data folder, and are measured in
turns with the same clients, each in a process of its own; one round warms up and is dropped. A ratio is
strom / Kafka round by round; its median is shown, and its spread over all rounds. Absolute figures
depend on the machine, and on a machine with few cores the clients take their share of it.

Kafka answers when records are handed to the operating system; strom's default is to answer when they
are on disk. So there are up to three tables: strom with `flush=os`, which is Kafka's promise; strom's
default beside Kafka's, which promises less; and strom's default beside Kafka with `flush.messages=1`,
which promises the same. Latencies, and the rate of small requests, have a target only between equal
promises. The eightfold rate is asked of small requests, where every answer needs the disk; large
batches are bound by how fast the disk and the client are, whichever broker writes them.

What groups and transactions write down goes to internal topics, which are given the same promise as
the topic that is measured. Rebalances and commits have a target only between equal promises, like
single requests. A rebalance is timed with members that do nothing else, from the moment that one joins
or leaves until all are stable; the pause that both brokers make between two assignments of the new
protocol is set to 0. Share groups are read by Kafka's own `ShareConsumerPerformance`, and count from
its first report with records on.

CPU is the user and system time of the broker's process. Memory is what is resident of it, at most.
"""


def _markdown_table(table: Table) -> str:
    rule = [":--" if at < LEFT_ALIGNED else "--:" for at in range(len(table.headings))]
    lines = [table.headings, rule, *without_repeated_cases(table.lines)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
