"""How fast views are: python -m benchmarks.pipelines [--quick] [--write] [--only PART]."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks import machine
from benchmarks.pipelines.figures import Figure, page
from benchmarks.pipelines.history import measure_batch, measure_replay
from benchmarks.pipelines.live import measure_live
from benchmarks.pipelines.memory import measure_memory
from benchmarks.pipelines.stage import FULL, QUICK, set_up

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks-pipelines.md"
# Memory first: all parts share one JVM, and what others leave in it would be counted.
PARTS = {
    "memory": measure_memory,
    "live": measure_live,
    "replay": measure_replay,
    "batch": measure_batch,
}


def main() -> int:
    """Measure, print a line for each figure, and write the page if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipelines", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller; a few minutes")
    parser.add_argument("--rate", type=int, help="clicks per second of the live part")
    parser.add_argument("--only", choices=[*PARTS], action="append", help="a part; may be repeated")
    parser.add_argument("--write", action="store_true", help=f"write docs/{PAGE.name}")
    options = parser.parse_args()
    scale = QUICK if options.quick else FULL
    if options.rate:
        scale = replace(scale, live_rate=options.rate)
    figures: list[Figure] = []
    for name in options.only or PARTS:
        with set_up() as stage:
            for figure in PARTS[name](stage, scale):
                figures.append(figure)
                print(figure.line(), flush=True)
    if options.write:
        command = " ".join(["python -m benchmarks.pipelines", *sys.argv[1:]])
        text = page(figures, machine.describe(), command=command, warm_s=scale.warm_s)
        PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
