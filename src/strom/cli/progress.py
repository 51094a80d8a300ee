"""Progress on stderr, only on a terminal: nothing of it reaches a pipe or a log."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[int], None]
_EVERY = 4096


@contextmanager
def progress_bar(total: int | None, title: str, wanted: bool = True) -> Iterator[Report]:
    """Show a bar that is full at `total`, or a counter for work of unknown length."""
    if not (wanted and sys.stderr.isatty()):
        yield lambda _done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        """Records per second so far."""

        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{speed:,.0f}/s" if speed else "")

    columns: list[ProgressColumn] = [TextColumn("{task.description}")]
    if total is not None:
        columns.append(BarColumn())
    columns += [TextColumn("{task.completed:,.0f}"), Rate()]
    with Progress(*columns, console=Console(stderr=True), transient=total is None) as progress:
        task = progress.add_task(title, total=total)

        drawn = 0

        def report(done: int) -> None:
            # Drawing is too expensive for every record.
            nonlocal drawn
            if done - drawn >= _EVERY or done == total:
                progress.update(task, completed=done)
                drawn = done

        yield report
