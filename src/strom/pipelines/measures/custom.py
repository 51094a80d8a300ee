"""A user's own measure, given as SQL."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from strom.model.errors import UserError
from strom.pipelines.measures.measure import Fold, Measure, Rows, Sql, State


def measure(
    *,
    partial: Mapping[str, str],
    merge: Mapping[str, str],
    finish: str,
    exactness: str = "as stated by its author",
) -> Measure:
    """A measure of your own, in Spark's SQL.

    `partial` names the parts of the state, each an aggregate over rows; `merge` combines each, an
    aggregate over the parts; `finish` makes the value of them:

        measure(
            partial={"a": "sum(x * w)", "b": "sum(w)"},
            merge={"a": "sum(a)", "b": "sum(b)"},
            finish="a / b",
        )

    A merge must not depend on order or grouping, or batch and speed layer will not agree.
    """
    if set(partial) != set(merge):
        raise UserError("A measure's partial and merge must name the same parts.")
    if not partial:
        raise UserError("A measure needs at least one part.")
    own = OwnMeasure(None, dict(partial), dict(merge), finish, exactness)
    own.fold(Rows(lambda column: "string", "at"))  # the texts are read now, not when it runs
    return own


@dataclass(frozen=True)
class OwnMeasure(Measure):
    """Three texts."""

    partial: Mapping[str, str] = field(default_factory=dict)
    merge: Mapping[str, str] = field(default_factory=dict)
    finish: str = ""
    stated: str = ""
    kind: ClassVar[str] = "measure"

    def fold(self, rows: Rows) -> Fold:
        """The texts, with the parts' names made into the state's columns."""
        states = tuple(
            State(
                name,
                Sql(text, _translated(text)),
                _translated(self.merge[name], rename=self.partial),
            )
            for name, text in self.partial.items()
        )
        finish = _translated(self.finish, rename=self.partial)
        return Fold(states, finish)

    def describe(self) -> str:
        """As the user wrote it."""
        return f"measure({self.finish})"


def _translated(text: str, rename: Mapping[str, str] | None = None) -> str:
    """Spark's SQL as DuckDB's; names in `rename` become {placeholders}."""
    import sqlglot
    from sqlglot import exp

    try:
        tree = sqlglot.parse_one(text, dialect="spark")
    except sqlglot.errors.SqlglotError:
        raise UserError(f"{text!r} is not an SQL expression.") from None
    if rename is None:
        return tree.sql(dialect="duckdb", identify=True)
    for column in tree.find_all(exp.Column):
        if column.name not in rename:
            raise UserError(
                f"{text!r} names {column.name}, which is no part of the state: {', '.join(rename)}."
            )
        column.this.set("this", f"\x00{column.name}\x01")
    written = tree.sql(dialect="duckdb", identify=True).replace("{", "{{").replace("}", "}}")
    return written.replace('"\x00', "{").replace('\x01"', "}")
