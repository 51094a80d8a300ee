"""A view: a fold over a stream. Batch, speed and replay all run this one definition."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Optional, Union

from strom.pipelines.definitions.keys import Window
from strom.pipelines.definitions.place import DefinitionError, SourceLocation, calling_place
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

    `columns` (new columns as SQL), then `where` (SQL), `prepare` (row-level PySpark) and `select` (the
    columns to keep) make the rows. `prepare` gets the rows, and each of `tables` by its name.

    A view that reads a view without measures sees its rows. One that reads a view with measures sees
    its groups, by their keys alone, and merges their states further: its measures are rollups.

    Expectations are named conditions in SQL. A row that violates one is kept and counted (`expect`),
    counted and dropped (`expect_or_drop`), or fails the view (`expect_or_fail`).
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
    place: SourceLocation | None = field(default_factory=calling_place, compare=False, repr=False)

    def __post_init__(self) -> None:
        for attribute in ("keys", "select"):
            object.__setattr__(self, attribute, tuple(getattr(self, attribute)))
        for attribute in ("measures", "columns", "tables", *EXPECTATIONS):
            object.__setattr__(self, attribute, dict(getattr(self, attribute)))
        self._check()

    @property
    def stream(self) -> Stream:
        """The stream that the view is based on, directly or through other views."""
        return self.reads if isinstance(self.reads, Stream) else self.reads.stream

    @property
    def steps(self) -> Iterator["View"]:
        """The views whose preparations make the rows, in order; this one is the last."""
        if isinstance(self.reads, View):
            yield from self.reads.steps
        yield self

    @property
    def rolls_up(self) -> Optional["View"]:
        """The view with measures that this one reads, if any."""
        return self.reads if isinstance(self.reads, View) and not self.reads.appends else None

    @property
    def folded(self) -> dict[str, Measure]:
        """The measures over the records themselves.

        A rollup is replaced by the measure that it rolls up.
        """
        if self.rolls_up is None:
            return dict(self.measures)
        upstream = self.rolls_up.folded
        return {
            name: upstream[one.of] for name, one in self.measures.items() if isinstance(one, Rollup)
        }

    @property
    def time(self) -> str | None:
        """The time column of windows: the event time, or the windows of the view that is read."""
        if self.rolls_up is None:
            return self.stream.event_time
        return self.rolls_up.span.name if self.rolls_up.span else None

    @property
    def span(self) -> Window | None:
        """The window of a group of this view, its own or one that it has kept as a key."""
        if self.windows:
            return self.windows[0]
        upstream = self.rolls_up.span if self.rolls_up else None
        return upstream if upstream and upstream.name in self.key_names else None

    @property
    def appends(self) -> bool:
        """Whether the view is a table of rows, without aggregation."""
        return not self.measures

    @property
    def windows(self) -> list[Window]:
        """The windows among the keys."""
        return [key for key in self.keys if isinstance(key, Window)]

    @property
    def key_names(self) -> list[str]:
        """The names of the key columns."""
        return [key.name if isinstance(key, Window) else key for key in self.keys]

    @property
    def known_columns(self) -> dict[str, str] | None:
        """The rows' columns with their types; None if only Spark knows them."""
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
        """The columns of this view's groups for a view that reads them; None if only Spark knows them."""
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
                raise DefinitionError(
                    self.place, f"Measure {name!r} must be a measure, such as count()."
                )
        check_rollup(self)
        if self.keys and not self.measures:
            raise DefinitionError(self.place, "A view with keys needs measures, such as count().")
        if len(self.windows) > 1:
            raise DefinitionError(self.place, "A view can have only one window.")
        if self.tables and not self.prepare:
            raise DefinitionError(self.place, "`tables` need `prepare`, which is missing.")
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
                    f"Invalid column name {name!r}: use letters, digits and single _ only. "
                    "For an expression, add it to `columns` and use its name.",
                )
        if double := next((name for name in names if names.count(name) > 1), None):
            raise DefinitionError(self.place, f"{double!r} occurs twice among keys and measures.")


def check_rollup(view: View) -> None:
    """Raise DefinitionError if a view rolls up what cannot be rolled up."""
    upstream = view.rolls_up
    if upstream is None:
        if any(isinstance(one, Rollup) for one in view.measures.values()):
            raise DefinitionError(
                view.place, "rollup() needs a view that reads a view with measures."
            )
        return
    other = upstream.name or "that view"
    for name, measure in view.measures.items():
        if not isinstance(measure, Rollup):
            raise DefinitionError(
                view.place,
                f"Measure {name!r} is {measure.describe()} over the results of {other}, which "
                "change with "
                f"every record and cannot be subtracted again. Merge a measure of {other} further with "
                f"rollup(), read what {other} reads, or compute it in a query over {other}.",
            )
        if measure.of not in upstream.measures:
            known = ", ".join(upstream.measures)
            raise DefinitionError(
                view.place, f"Unknown measure {measure.of!r} of {other}. Known: {known}."
            )
    if view.appends:
        raise DefinitionError(
            view.place,
            f"The groups of {other} change with every record: a view of it needs measures, "
            "each a rollup().",
        )
    if any(getattr(view, word) for word in EXPECTATIONS):
        raise DefinitionError(
            view.place, f"Expectations are about rows, not groups: define them in {other}."
        )
    _check_rolled_windows(view, upstream.span)


def _check_rolled_windows(view: View, span: Window | None) -> None:
    """Windows must consist of whole windows, with each record in one of them."""
    for window in view.windows:
        if span is None:
            raise DefinitionError(
                view.place, "A window needs a window among the keys of the view that is read."
            )
        if window.every_us % span.length_us:
            raise DefinitionError(
                view.place,
                "Length and step of a window over windows must be multiples of theirs.",
            )
    if span is not None and span.overlaps > 1 and view.span is not span:
        raise DefinitionError(
            view.place,
            "The windows of the view that is read overlap, so a record would be counted several times. "
            f"Keep {span.name!r} among the keys.",
        )


def check_against(view: View, columns: Mapping[str, str]) -> None:
    """Raise DefinitionError if keys or measures do not match these columns."""
    for key in view.keys:
        if isinstance(key, Window):
            if view.time not in columns:
                raise DefinitionError(
                    view.place, f"The window needs the column {view.time}: do not drop it."
                )
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
    """The error message for an unknown column."""
    own = [column for column in columns if not column.startswith("_")]
    return f"Unknown column {name!r}. Columns: {', '.join(own)}."
