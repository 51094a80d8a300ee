"""The live display of `strom demo`: rate, lag, freshness, top pages."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from strom.cli.printing import human_count

if TYPE_CHECKING:
    from rich.table import Table

    from strom.pipelines.layers.speed import SpeedProgress

_EVERY_S = 0.5
_LINE_EVERY_S = 5.0


@contextlib.contextmanager
def progress_lines(what: str) -> Iterator[None]:
    """Announces a step, and prints from time to time for how long it has been running."""
    click.echo(f"{what} …")
    ended = threading.Event()

    def report() -> None:
        began = time.monotonic()
        while not ended.wait(_LINE_EVERY_S):
            click.echo(f"   {time.monotonic() - began:3.0f} s")

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield
    finally:
        ended.set()
        reporter.join()


@contextlib.contextmanager
def live_table(
    query: Callable[[str], list[dict[str, Any]]], progress: "SpeedProgress"
) -> Iterator[Callable[[], None]]:
    """Yields a function that waits and redraws a table; without a terminal, it prints lines."""
    began = time.monotonic()
    if not sys.stdout.isatty():
        lines = _Lines(query, progress, began)
        yield lines.draw
        return
    from rich.live import Live

    with Live(refresh_per_second=4, transient=True) as live:

        def draw() -> None:
            time.sleep(_EVERY_S)
            live.update(_table(query, progress, began))

        yield draw


class _Lines:
    def __init__(
        self, query: Callable[[str], list[dict[str, Any]]], progress: "SpeedProgress", began: float
    ) -> None:
        self._query, self._progress, self._began = query, progress, began
        self._printed_at = began

    def draw(self) -> None:
        """Query as a dashboard would; print a line every `_LINE_EVERY_S`."""
        time.sleep(_EVERY_S)
        top = self._query("SELECT pages FROM shop")
        now = time.monotonic()
        if now - self._printed_at < _LINE_EVERY_S:
            return
        self._printed_at = now
        first = (
            f"top page {top[0]['pages'][0]['item']}" if top and top[0]["pages"] else "no page yet"
        )
        done = self._progress
        click.echo(
            f"   {now - self._began:3.0f} s: {human_count(done.records)} clicks in the views, lag "
            f"{human_count(done.lag)}, fresh within {done.freshness.quantile(0.99, 20):.1f} s, {first}"
        )


def _table(
    query: Callable[[str], list[dict[str, Any]]], progress: "SpeedProgress", began: float
) -> "Table":
    from rich.table import Table

    rows = query("SELECT clicks, visitors, pages FROM shop")
    shop: dict[str, Any] = rows[0] if rows else {"clicks": 0, "visitors": 0, "pages": []}
    passed = time.monotonic() - began
    table = Table(title="a shop's clicks, live")
    table.add_column("")
    table.add_column("", justify="right")
    facts = {
        "clicks in the views": human_count(shop["clicks"] or 0),
        "rate": f"{human_count(progress.records / passed)}/s",
        "lag": human_count(progress.lag),
        "fresh within (p99)": f"{progress.freshness.quantile(0.99, 20):.2f} s",
        "malformed": human_count(progress.dead_letters),
        "visitors (estimate)": human_count(shop["visitors"] or 0),
    }
    facts |= {f"  {one['item']}": human_count(one["count"]) for one in shop["pages"] or []}
    for name, value in facts.items():
        table.add_row(name, value)
    return table
