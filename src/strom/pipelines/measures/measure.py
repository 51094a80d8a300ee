"""What a measure is: a monoid, written as SQL for the two engines.

`partial` turns rows into a state, in Spark (and in DuckDB, where tests want no Java). `merge` turns
many states into one, and `finish` a state into a value; both run where views are served, in DuckDB.
A merge must be associative and commutative, or the law of views breaks.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from strom.pipelines.definitions.types import is_plain_name

EXACT = "exact"


@dataclass(frozen=True)
class Sql:
    """The same expression for both engines."""

    spark: str
    duckdb: str


@dataclass(frozen=True)
class State:
    """One column of a measure's state."""

    name: str
    partial: Sql
    """An aggregate over rows."""
    merge: str
    """An aggregate over the states of a group, in DuckDB; {} stands for the column."""


@dataclass(frozen=True)
class Fold:
    """A measure, made out for the columns of one view.

    A plain fold has one state per key, and `finish` is an expression over {state names}.

    A tally counts items: it has one row of state per key and `item`, so that engines can
    merge it by grouping alone. Its `finish` is an aggregate over the rows of a key, written with
    {item}, {n} (how often), {running} and {total} (sums of n, in the order of items), and {rows}, the
    condition that picks out this tally's rows.
    """

    states: tuple[State, ...]
    finish: str
    item: Sql | None = None


@dataclass(frozen=True)
class Rows:
    """What a measure can ask about the rows of its view."""

    type_of: Callable[[str], str]
    time: str


@dataclass(frozen=True)
class Measure(ABC):
    """A measure of a view; use the functions of `strom.pipelines`, such as count() or mean("ms")."""

    column: str | None = None
    kind: ClassVar[str]
    exactness: ClassVar[str] = EXACT

    @abstractmethod
    def fold(self, rows: Rows) -> Fold:
        """The expressions, for the types that the rows have."""

    def inputs(self, time: str) -> list[str]:
        """The columns, or expressions, that it reads."""
        return [self.column] if self.column else []

    def problem_with(self, type_name: str) -> str | None:
        """Why it cannot work on a column of this type."""
        return None

    def describe(self) -> str:
        """As the user wrote it."""
        return f"{self.kind}({self.column or ''})"


def both(text: str) -> Sql:
    """An expression that means the same to both engines."""
    return Sql(text, text)


def quoted(column: str | None) -> Sql:
    """A column's name in either engine's quotes; an expression stays as it is."""
    if column is None:
        return both("*")
    if not is_plain_name(column):
        return both(f"({column})")
    return Sql(f"`{column}`", f'"{column}"')


def applied(function: str, argument: Sql) -> Sql:
    """A function, or any text with {}, over an expression."""
    template = function if "{}" in function else f"{function}({{}})"
    return Sql(template.format(argument.spark), template.format(argument.duckdb))
