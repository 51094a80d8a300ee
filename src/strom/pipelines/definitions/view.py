"""A view: a fold over a stream. Written once; batch, speed and replay all run this one value."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Union

from strom.pipelines.definitions.keys import Window
from strom.pipelines.definitions.place import DefinitionError, Place, calling_place
from strom.pipelines.definitions.stream import Stream, Table
from strom.pipelines.definitions.types import is_plain_name
from strom.pipelines.measures.measure import Measure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Key = str | Window
Prepare = Callable[..., "DataFrame"]


@dataclass(frozen=True, kw_only=True)
class View:
    """Measures by keys over a stream, or, without measures, the prepared rows themselves.

    `columns` (new columns as SQL), then `where` (SQL), then `prepare` (any row-level PySpark) make the
    rows. `prepare` gets the rows, and each of `tables` by its name. A view that reads another
    one without measures sees that one's rows.
    """

    reads: Union[Stream, "View"]
    keys: Sequence[Key] = ()
    measures: Mapping[str, Measure] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    where: str | None = None
    prepare: Prepare | None = None
    tables: Mapping[str, Table] = field(default_factory=dict)
    name: str = ""
    place: Place | None = field(default_factory=calling_place, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", tuple(self.keys))
        for attribute in ("measures", "columns", "tables"):
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
        if any(step.prepare or step.columns for step in self.steps):
            return None
        return self.stream.columns

    def _check(self) -> None:
        if not isinstance(self.reads, Stream | View):
            raise DefinitionError(self.place, "`reads` must be a Stream or a View.")
        if isinstance(self.reads, View) and not self.reads.appends:
            raise DefinitionError(
                self.place,
                "A view can read a view without measures only: the result of a measure changes "
                "with every record. Read that view's stream, and give this one measures of its own.",
            )
        if self.keys and not self.measures:
            raise DefinitionError(self.place, "A view with keys needs measures, such as count().")
        if len(self.windows) > 1:
            raise DefinitionError(self.place, "A view can have one window.")
        if self.tables and not self.prepare:
            raise DefinitionError(self.place, "`tables` are for `prepare`, and there is none.")
        self._check_names()
        self._check_columns()

    def _check_names(self) -> None:
        names = [*self.key_names, *(key.end_name for key in self.windows), *self.measures]
        for name in [*names, *self.columns]:
            if not is_plain_name(name) or "__" in name:
                raise DefinitionError(
                    self.place,
                    f"{name!r} is no name for a column: it has letters, digits and single _ only. "
                    "For an expression, add to `columns` and use its name.",
                )
        if double := next((name for name in names if names.count(name) > 1), None):
            raise DefinitionError(self.place, f"{double!r} is there twice among keys and measures.")
        for name, measure in self.measures.items():
            if not isinstance(measure, Measure):
                raise DefinitionError(self.place, f"Measure {name!r} is not one, such as count().")

    def _check_columns(self) -> None:
        if (columns := self.known_columns) is not None:
            check_against(self, columns)


def check_against(view: View, columns: Mapping[str, str]) -> None:
    """Raise DefinitionError if keys or measures do not fit these columns."""
    for key in view.keys:
        if isinstance(key, Window):
            if view.stream.event_time not in columns:
                raise DefinitionError(
                    view.place, f"The window needs column {view.stream.event_time}; keep it."
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
    """A sentence about a column that is not there."""
    own = [column for column in columns if not column.startswith("_")]
    return f"There is no column {name!r}. The columns are {', '.join(own)}."
