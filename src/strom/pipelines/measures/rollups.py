"""A measure of a view that reads a view with measures: its states, merged further."""

from dataclasses import dataclass
from typing import ClassVar

from strom.model.errors import UserError
from strom.pipelines.measures.measure import Fold, Measure, Rows


def rollup(measure: str) -> Measure:
    """A measure of the view that is read, over the coarser keys of this one.

    It merges states, not results: the mean of an hour is the mean of all its records, and visitors of
    several minutes are counted once.
    """
    return Rollup(None, measure)


@dataclass(frozen=True)
class Rollup(Measure):
    """A reference to a measure of another view; `View.folded` replaces it."""

    of: str = ""
    kind: ClassVar[str] = "rollup"
    exactness: ClassVar[str] = "as the measure that is rolled up"

    def fold(self, rows: Rows) -> Fold:
        """Always fails: only a view knows which measure it refers to."""
        raise UserError(f"{self.describe()} needs a view with measures to read.")

    def describe(self) -> str:
        """The rollup as the user wrote it."""
        return f"rollup({self.of})"
