"""The interface of a measure: a monoid, written as SQL for the two engines.

`partial` turns rows into a state, in Spark (and in DuckDB, for tests without Java). `merge` combines
states, and `finish` turns a state into a value; both run in DuckDB, where views are served. A merge
must be associative and commutative, or batch, speed and replay give different results.
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
    """An aggregate over the states of a group, in DuckDB; {} is the column."""


@dataclass(frozen=True)
class Fold:
    """The expressions of a measure for the columns of one view.

    A plain fold has one state per key, and `finish` is an expression over {state names}.

    A tally counts items: it has one row of state per key and `item`, so that engines can merge it by
    grouping alone. Its `finish` is an aggregate over the rows of a key, written with {item}, {n} (the
    count), {running} and {total} (sums of n, in the order of items), and {rows}, the condition that
    selects this tally's rows.
    """

    states: tuple[State, ...]
    finish: str
    item: Sql | None = None


@dataclass(frozen=True)
class Rows:
    """The rows of a view, as a measure sees them."""

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
        """The expressions, for the types of the rows."""

    def inputs(self, time: str) -> list[str]:
        """The columns, or expressions, that it reads."""
        return [self.column] if self.column else []

    def problem_with(self, type_name: str) -> str | None:
        """Why it does not support a column of this type, or None."""
        return None

    def describe(self) -> str:
        """The measure as the user wrote it."""
        return f"{self.kind}({self.column or ''})"


def both(text: str) -> Sql:
    """An expression that is the same in both engines."""
    return Sql(text, text)


def quoted(column: str | None) -> Sql:
    """A column's name quoted for each engine; an expression is unchanged."""
    if column is None:
        return both("*")
    if not is_plain_name(column):
        return both(f"({column})")
    return Sql(f"`{column}`", f'"{column}"')


def applied(function: str, argument: Sql) -> Sql:
    """A function, or any template with {}, applied to an expression."""
    template = function if "{}" in function else f"{function}({{}})"
    return Sql(template.format(argument.spark), template.format(argument.duckdb))
