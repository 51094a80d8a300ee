"""A view: a fold over a stream. Written once; batch, speed and replay all run this one value."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Optional, Union

from strom.pipelines.definitions.keys import Window
from strom.pipelines.definitions.place import DefinitionError, Place, calling_place
from strom.pipelines.definitions.stream import Stream, Table
from strom.pipelines.definitions.types import is_plain_name
from strom.pipelines.measures.measure import Measure
from strom.pipelines.measures.rollups import Rollup

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EXPECTATIONS = ("expect", "expect_or_drop", "expect_or_fail")
Key = str | Window
Prepare = Callable[..., "DataFrame"]


@dataclass(frozen=True, kw_only=True)
class View:
    """Measures by keys over a stream, or, without measures, the prepared rows themselves.

    `columns` (new columns as SQL), then `where` (SQL), `prepare` (any row-level PySpark) and `select`
    (the columns that stay) make the rows. `prepare` gets the rows, and each of `tables` by its name.

    A view that reads a view without measures sees that one's rows. One that reads a view with measures
    sees its groups, by their keys alone, and merges their states further: its measures are rollups.

    Expectations are conditions in SQL by name. A row for which one does not hold stays and is counted
    (`expect`), is counted and left out (`expect_or_drop`), or ends the work (`expect_or_fail`).
    """

    reads: Union[Stream, "View"]
    keys: Sequence[Key] = ()
    measures: Mapping[str, Measure] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    where: str | None = None
    select: Sequence[str] = ()
    prepare: Prepare | None = None
    tables: Mapping[str, Table] = field(default_factory=dict)
    expect: Mapping[str, str] = field(default_factory=dict)
    expect_or_drop: Mapping[str, str] = field(default_factory=dict)
    expect_or_fail: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    place: Place | None = field(default_factory=calling_place, compare=False, repr=False)

    def __post_init__(self) -> None:
        for attribute in ("keys", "select"):
            object.__setattr__(self, attribute, tuple(getattr(self, attribute)))
        for attribute in ("measures", "columns", "tables", *EXPECTATIONS):
            object.__setattr__(self, attribute, dict(getattr(self, attribute)))
        self._check()

    @property
    def stream(self) -> Stream:
        """The stream at the very beginning."""
        return self.reads if isinstance(self.reads, Stream) else self.reads.stream

    @property
    def steps(self) -> Iterator["View"]:
        """The views whose preparations make the rows, in order; this one is the last."""
        if isinstance(self.reads, View):
            yield from self.reads.steps
        yield self

    @property
    def rolls_up(self) -> Optional["View"]:
        """The view with measures that this one reads."""
        return self.reads if isinstance(self.reads, View) and not self.reads.appends else None

    @property
    def folded(self) -> dict[str, Measure]:
        """The measures over the records themselves: a rollup is the measure that it rolls up."""
        if self.rolls_up is None:
            return dict(self.measures)
        upstream = self.rolls_up.folded
        return {
            name: upstream[one.of] for name, one in self.measures.items() if isinstance(one, Rollup)
        }

    @property
    def time(self) -> str | None:
        """The column that windows look at: the event time, or the windows of the view that is read."""
        if self.rolls_up is None:
            return self.stream.event_time
        return self.rolls_up.span.name if self.rolls_up.span else None

    @property
    def span(self) -> Window | None:
        """The window that a group of this view stands for, its own or one that it has kept as a key."""
        if self.windows:
            return self.windows[0]
        upstream = self.rolls_up.span if self.rolls_up else None
        return upstream if upstream and upstream.name in self.key_names else None

    @property
    def appends(self) -> bool:
        """Whether this is a table of rows, without aggregation."""
        return not self.measures

    @property
    def windows(self) -> list[Window]:
        """The windows among the keys."""
        return [key for key in self.keys if isinstance(key, Window)]

    @property
    def key_names(self) -> list[str]:
        """The columns that the keys become."""
        return [key.name if isinstance(key, Window) else key for key in self.keys]

    @property
    def known_columns(self) -> dict[str, str] | None:
        """The rows' columns with their types; None where only Spark can tell."""
        if self.prepare or self.columns or not self.stream.resolved:
            return None
        before = (
            self.stream.columns
            if isinstance(self.reads, Stream)
            else self.reads.key_columns
            if self.rolls_up
            else self.reads.known_columns
        )
        if before is None or not self.select:
            return before
        return {
            name: kind for name, kind in before.items() if name in self.select or name[0] == "_"
        }

    @property
    def key_columns(self) -> dict[str, str] | None:
        """What a view that reads this one's groups sees of them; None where only Spark can tell."""
        rows = self.known_columns
        if rows is None:
            return None
        columns = {name: rows[name] for name in self.key_names if name in rows}
        for window in self.windows:
            columns |= {window.name: "timestamp", window.end_name: "timestamp"}
        return columns

    def _check(self) -> None:
        if not isinstance(self.reads, Stream | View):
            raise DefinitionError(self.place, "`reads` must be a Stream or a View.")
        for name, measure in self.measures.items():
            if not isinstance(measure, Measure):
                raise DefinitionError(self.place, f"Measure {name!r} is not one, such as count().")
        check_rollup(self)
        if self.keys and not self.measures:
            raise DefinitionError(self.place, "A view with keys needs measures, such as count().")
        if len(self.windows) > 1:
            raise DefinitionError(self.place, "A view can have one window.")
        if self.tables and not self.prepare:
            raise DefinitionError(self.place, "`tables` are for `prepare`, and there is none.")
        self._check_names()
        if (columns := self.known_columns) is not None:
            for name in self.select:
                if name not in columns:
                    raise DefinitionError(self.place, unknown_column(name, columns))
            check_against(self, columns)

    def _check_names(self) -> None:
        names = [*self.key_names, *(key.end_name for key in self.windows), *self.measures]
        for name in [*names, *self.columns, *self.select, *self.expect, *self.expect_or_drop]:
            if not is_plain_name(name) or "__" in name:
                raise DefinitionError(
                    self.place,
                    f"{name!r} is no name for a column: it has letters, digits and single _ only. "
                    "For an expression, add to `columns` and use its name.",
                )
        if double := next((name for name in names if names.count(name) > 1), None):
            raise DefinitionError(self.place, f"{double!r} is there twice among keys and measures.")


def check_rollup(view: View) -> None:
    """Raise DefinitionError if a view rolls up what cannot be rolled up."""
    upstream = view.rolls_up
    if upstream is None:
        if any(isinstance(one, Rollup) for one in view.measures.values()):
            raise DefinitionError(
                view.place, "rollup() is for a view that reads a view with measures."
            )
        return
    other = upstream.name or "that view"
    for name, measure in view.measures.items():
        if not isinstance(measure, Rollup):
            raise DefinitionError(
                view.place,
                f"Measure {name!r} is {measure.describe()}, over the results of {other}: these change "
                "with every record, and what was added up of them could not be taken back. Merge a "
                f"measure further by rollup(), read what {other} reads, or ask it in a query over "
                f"{other}.",
            )
        if measure.of not in upstream.measures:
            known = ", ".join(upstream.measures)
            raise DefinitionError(
                view.place, f"There is no measure {measure.of!r} in {other}, but {known}."
            )
    if view.appends:
        raise DefinitionError(
            view.place,
            f"The rows of {other} change with every record: a view of it needs measures, "
            "each a rollup().",
        )
    if any(getattr(view, word) for word in EXPECTATIONS):
        raise DefinitionError(view.place, f"Expect of rows, not of groups: say it in {other}.")
    _check_rolled_windows(view, upstream.span)


def _check_rolled_windows(view: View, span: Window | None) -> None:
    """Windows must be made of whole windows, each record in one of them."""
    for window in view.windows:
        if span is None:
            raise DefinitionError(
                view.place, "A window needs a window among the keys of the view that is read."
            )
        if window.every_us % span.length_us:
            raise DefinitionError(
                view.place,
                "A window over windows must begin, and be as long as, a multiple of them.",
            )
    if span is not None and span.overlaps > 1 and view.span is not span:
        raise DefinitionError(
            view.place,
            "The windows of the view that is read overlap: together they would count a record more "
            f"than once. Keep {span.name!r} among the keys.",
        )


def check_against(view: View, columns: Mapping[str, str]) -> None:
    """Raise DefinitionError if keys or measures do not fit these columns."""
    for key in view.keys:
        if isinstance(key, Window):
            if view.time not in columns:
                raise DefinitionError(view.place, f"The window needs column {view.time}; keep it.")
        elif key not in columns:
            raise DefinitionError(view.place, unknown_column(key, columns))
    for name, measure in view.measures.items():
        for column in measure.inputs(view.stream.event_time):
            if is_plain_name(column) and column not in columns:
                text = f"Measure {name!r}: {unknown_column(column, columns)}"
                raise DefinitionError(view.place, text)
        if measure.column and is_plain_name(measure.column):
            problem = measure.problem_with(columns[measure.column])
            if problem:
                raise DefinitionError(view.place, f"Measure {name!r}: {problem}")


def unknown_column(name: str, columns: Mapping[str, str]) -> str:
    """A sentence about a column that is not there."""
    own = [column for column in columns if not column.startswith("_")]
    return f"There is no column {name!r}. The columns are {', '.join(own)}."
