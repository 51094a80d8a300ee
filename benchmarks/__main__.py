"""Run strom and the real Kafka side by side, and print how they compare.

python -m benchmarks                   everything; takes about an hour
python -m benchmarks --quick           smaller and fewer rounds; a few minutes
python -m benchmarks --only startup    one measurement; may be given several times
"""

import argparse
import dataclasses
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from benchmarks import (
    commits,
    growth,
    latency,
    machine,
    memory,
    rebalances,
    share_groups,
    startup,
    throughput,
    transactions,
)
from benchmarks.report import markdown, print_tables
from benchmarks.results import Measurement, Run, load, save, to_json
from benchmarks.scale import FULL, QUICK, Scale
from benchmarks.session import Session
from tools.kafka import UnavailableError, locate

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
TABLE_WIDTH = 160
DOCS = ROOT / "docs" / "benchmarks.md"


class Measure(NamedTuple):
    """One module's measurement."""

    steps: Callable[[Session], int]
    measure: Callable[[Session], Iterator[Measurement]]


MEASURES = {
    "startup": Measure(startup.steps, startup.measure),
    "memory": Measure(memory.steps, memory.measure),
    "latency": Measure(latency.steps, latency.measure),
    "throughput": Measure(throughput.steps, throughput.measure),
    "transactions": Measure(transactions.steps, transactions.measure),
    "rebalances": Measure(rebalances.steps, rebalances.measure),
    "commits": Measure(commits.steps, commits.measure),
    "share-groups": Measure(share_groups.steps, share_groups.measure),
    "growth": Measure(growth.steps, growth.measure),
}


def main() -> int:
    """Run what the command line asks for."""
    # As after an installation: Python keeps what it has compiled.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    options = _parser().parse_args()
    if options.show is not None:
        _show(load(options.show), options)
        return 0
    try:
        locate()
    except UnavailableError as reason:
        print(f"There is no Kafka to compare with: {reason}", file=sys.stderr)
        return 1
    scale = QUICK if options.quick else FULL
    if options.rounds is not None:
        scale = dataclasses.replace(scale, rounds=options.rounds)
    now = datetime.now(UTC)
    command = shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]])
    run = Run(now.strftime("%Y-%m-%d"), command, machine.describe())
    path = RESULTS / f"{now:%Y%m%d-%H%M%S}.json"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the brokers are stopped
    for measurement in _measure(options.only or list(MEASURES), scale):
        run.measurements.append(measurement)
        save(run, path)  # what is measured is kept, also if the next one fails
    _show(run, options)
    print(f"The figures are in {path.relative_to(ROOT)}.", file=sys.stderr)
    return 0


def _measure(names: list[str], scale: Scale) -> Iterator[Measurement]:
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        for name in names:
            task = progress.add_task(name, total=None)

            def step(text: str, task: TaskID = task) -> None:
                progress.update(task, description=text, advance=1)
                if not console.is_terminal:
                    console.print(text, highlight=False)

            session = Session(scale, step)
            progress.update(task, total=MEASURES[name].steps(session))
            yield from MEASURES[name].measure(session)


def _show(run: Run, options: argparse.Namespace) -> None:
    if options.json:
        print(to_json(run), end="")
    else:
        print_tables(run, Console(width=None if sys.stdout.isatty() else TABLE_WIDTH))
    if options.write_docs:
        DOCS.parent.mkdir(exist_ok=True)
        DOCS.write_text(markdown(run))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="less of everything; a few minutes")
    parser.add_argument(
        "--only", action="append", choices=list(MEASURES), help="measure this and not the rest"
    )
    parser.add_argument("--rounds", type=_positive, metavar="N", help="how often each is measured")
    parser.add_argument("--json", action="store_true", help="print the figures, not the tables")
    parser.add_argument("--write-docs", action="store_true", help="write docs/benchmarks.md")
    parser.add_argument(
        "--show", type=Path, metavar="FILE", help="measure nothing: show the figures of a run"
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
